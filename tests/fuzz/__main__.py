"""`python -m tests.fuzz`: fuzzes what strangers can send, and tells what broke. Exits with 1 on a finding."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import Report, replay, run_campaign, warn
from tests.fuzz.case import Finding, load
from tests.fuzz.targets.registry import TARGETS


def main() -> int:
    given = _arguments()
    if given.replay:
        return _replay(given.replay)
    targets = [target for target in TARGETS if not given.target or target.name in given.target]
    seed = given.seed if given.seed is not None else secrets.randbits(32)
    warn(f"seed {seed}, {given.seconds:g} s, targets {', '.join(one.name for one in targets)}")
    report = run_campaign(
        targets,
        seconds=given.seconds,
        seed=seed,
        workers=given.workers,
        cases=given.cases,
        folder=given.folder,
        tell=warn,
    )
    if given.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        print(report.table())
    _tell_findings(report)
    return int(bool(report.findings))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, in all (60)")
    parser.add_argument("--cases", type=int, help="how many cases per target, instead of filling the time")
    parser.add_argument("--seed", type=int, help="draw the same cases again")
    parser.add_argument("--target", action="append", choices=[one.name for one in TARGETS], help="may be repeated")
    parser.add_argument("--workers", type=int, help="processes at once (one per core)")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="where failing cases go (build/fuzz)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one saved case")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    return parser.parse_args()


def _replay(file: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        told = replay(load(file), TARGETS, Path(folder))
    print(f"{told.kind}\n{told.detail}" if isinstance(told, Finding) else told)
    return int(isinstance(told, Finding))


def _tell_findings(report: Report) -> None:
    for reason, count in report.reasons.most_common():
        warn(f"{count:>6} × {reason}")
    for file in report.saved:
        warn(f"replay with: python -m tests.fuzz --replay {file}")


if __name__ == "__main__":
    sys.exit(main())
