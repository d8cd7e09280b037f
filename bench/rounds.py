"""Runs the cases, each in its own process, in rounds that alternate between the contenders.

A slow moment of the machine then hits all of them alike, and the best of the rounds is what the code can do.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cases import Case
from bench.imports import import_command
from bench.offline import quiet_environment
from bench.samples import Sample

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 900
# A case that has taken this long in total is not measured again: its figure is far above the noise.
ENOUGH_SECONDS = 30.0

Progress = Callable[[str], None]


def measure(cases: Sequence[Case], rounds: int, progress: Progress) -> list[Sample]:
    """Measure every case in up to `rounds` rounds; every second round goes backwards, so that drift cancels out."""
    values: dict[Case, list[float]] = {case: [] for case in cases}
    errors: dict[Case, str] = {}
    spent = dict.fromkeys(cases, 0.0)
    for number in range(rounds):
        for case in cases if number % 2 == 0 else reversed(cases):
            if case in errors or spent[case] > ENOUGH_SECONDS:
                continue
            started = time.perf_counter()
            try:
                values[case].append(_measure_once(case))
                progress(f"round {number + 1}/{rounds}  {case.name:<58} {values[case][-1]:,.4g}")
            except _Failed as failure:
                errors[case] = str(failure)
                progress(f"round {number + 1}/{rounds}  {case.name:<58} failed: {failure}")
            spent[case] += time.perf_counter() - started
    return [Sample(case=case, values=tuple(values[case]), error=errors.get(case)) for case in cases]


class _Failed(Exception):
    """A case's process failed; the text is its last line."""


def _measure_once(case: Case) -> float:
    command = import_command(case.subject) if case.kind == "import" else ["-m", "bench.child", case.model_dump_json()]
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=quiet_environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _Failed(f"no result after {TIMEOUT_SECONDS} s") from None
    if done.returncode:
        raise _Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return float(done.stdout.split()[-1])
