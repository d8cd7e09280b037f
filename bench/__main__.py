"""The benchmark's command line: measure, print the tables, write `latest.json` and `latest.svg`."""

import argparse
import compileall
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from bench import plot, postgres_server, report
from bench.cases import Case, all_cases
from bench.machine import describe_machine
from bench.rounds import measure
from bench.samples import Report, Sample

RESULTS = Path(__file__).resolve().parent / "results"
SOURCE = RESULTS.parent.parent / "src" / "teamwright"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code is 1 when a case could not be measured."""
    options = _parser().parse_args(arguments)
    rounds = options.rounds or (1 if options.quick else 5)
    cases = all_cases(quick=options.quick, only=options.only)
    if not cases:
        print(
            f"no case's name contains {' or '.join(map(repr, options.only))}; see the names with --list",
            file=sys.stderr,
        )
        return 2
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    # pip compiles the other frameworks to bytecode when it installs them; a checkout is not compiled yet.
    compileall.compile_dir(SOURCE, quiet=1)
    found = Report(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(),
        rounds=rounds,
        quick=options.quick,
        load=os.getloadavg()[0],
        samples=_measured(cases, rounds),
    )
    print(found.model_dump_json(indent=2) if options.json else report.text(found))
    # A partial benchmark must not replace the results of a whole one, so it is written only on request.
    if options.out or not (options.quick or options.only):
        _write(found, options.out or RESULTS)
    return 1 if any(sample.error for sample in found.samples) else 0


def _measured(cases: Sequence[Case], rounds: int) -> tuple[Sample, ...]:
    with postgres_server.serving() if any(case.store == "postgres" for case in cases) else nullcontext():
        return tuple(measure(cases, rounds, lambda line: print(line, file=sys.stderr, flush=True)))


def _write(found: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.json").write_text(found.model_dump_json(indent=2) + "\n")
    (folder / "latest.svg").write_text(plot.svg(found))
    print(f"written to {folder}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, 200 turns, 1000 resumed steps")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds to take the best of (5)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="cases whose name contains it; repeatable"
    )
    parser.add_argument("--list", action="store_true", help="list the names of the cases and measure nothing")
    parser.add_argument("--json", action="store_true", help="print the results as one JSON document")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder for latest.json and latest.svg (bench/results)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
