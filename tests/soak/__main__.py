"""`python -m tests.soak`: disturbs real runs at random and checks the laws. Exits with 1 where one is broken."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path
from shutil import rmtree

from tests.soak.campaign import run_soak
from tests.soak.teams import TEAMS


def main() -> int:
    given = _arguments()
    seed = given.seed if given.seed is not None else secrets.randbits(32)
    folder: Path = (given.folder / str(seed)).absolute()
    rmtree(folder, ignore_errors=True)
    teams = [team for team in TEAMS if not given.team or team.name in given.team]
    _say(f"seed {seed}, {given.minutes:g} minutes, teams {', '.join(team.name for team in teams)}")
    report = run_soak(seconds=given.minutes * 60, seed=seed, folder=folder, width=given.width, teams=teams, tell=_say)
    print(json.dumps(report.to_json(), indent=2) if given.json else report.table())
    for breach in report.breaches:
        _say(f"BROKEN {breach}")
    if report.breaches:
        _say(f"the journal, the manifests and the logs are kept in {folder}")
        return 1
    rmtree(folder, ignore_errors=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long runs are disturbed (1)")
    parser.add_argument("--seed", type=int, help="take the same actions again; their timing differs")
    parser.add_argument("--team", action="append", choices=[team.name for team in TEAMS], help="may be repeated")
    parser.add_argument("--width", type=int, default=3, help="runs at once (3)")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"), help="where journals go (build/soak)")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
