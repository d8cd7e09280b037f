"""A fuzz campaign: shares the time among targets and children, collects what they find, and tells it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from pydantic import JsonValue

from tests.fuzz.case import Case, Finding, save
from tests.fuzz.targets.protocol import Target
from tests.fuzz.worker import BROKEN, Counts, Slice, Worker, run_case

LONGEST_SLICE = 15.0
BLOCK = 10_000_000
"""Case numbers of one slice: the slices of a target never draw the same case."""
KEPT_PER_REASON = 3
RETRY_SLACK = 2.0
"""A case that hung is run again alone, with the bounds multiplied by this, before it counts."""


@dataclass(slots=True)
class Tally:
    """The counts of one target."""

    cases: int = 0
    accepted: int = 0
    refused: int = 0
    findings: int = 0
    seconds: float = 0.0

    def add(self, counts: Counts) -> None:
        self.cases += counts.cases
        self.accepted += counts.accepted
        self.refused += counts.refused


@dataclass(slots=True)
class Report:
    """The result of a campaign."""

    seed: int
    seconds: float = 0.0
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    findings: list[Finding] = field(default_factory=list[Finding])
    """One for each reason, the first that was met, up to a few."""
    reasons: Counter[str] = field(default_factory=Counter[str])
    saved: list[Path] = field(default_factory=list[Path])

    def take(self, finding: Finding, folder: Path | None) -> bool:
        """Count a finding, and keep it unless its reason is well known; whether it is the first of its reason."""
        reason = f"{finding.case.target}: {finding.signature}"
        self.reasons[reason] += 1
        self.tallies[finding.case.target].findings += 1
        if self.reasons[reason] <= KEPT_PER_REASON:
            self.findings.append(finding)
            if folder is not None:
                self.saved.append(save(finding, folder))
        return self.reasons[reason] == 1

    def table(self) -> str:
        """The counts per target, as text."""
        head = f"{'target':<12}{'cases':>10}{'accepted':>10}{'refused':>10}{'findings':>10}{'seconds':>10}"
        rows = [
            f"{name:<12}{one.cases:>10}{one.accepted:>10}{one.refused:>10}{one.findings:>10}{one.seconds:>10.0f}"
            for name, one in sorted(self.tallies.items())
        ]
        every = self.tallies.values()
        total = [sum(getattr(one, name) for one in every) for name in ("cases", "accepted", "refused", "findings")]
        last = f"{'all':<12}{total[0]:>10}{total[1]:>10}{total[2]:>10}{total[3]:>10}{self.seconds:>10.0f}"
        return "\n".join([head, *rows, last])

    def to_json(self) -> dict[str, JsonValue]:
        names = ("cases", "accepted", "refused", "findings", "seconds")
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "targets": {
                name: {key: round(getattr(one, key), 1) for key in names} for name, one in self.tallies.items()
            },
            "reasons": dict(self.reasons),
            "saved": [str(file) for file in self.saved],
        }


@dataclass(slots=True)
class Campaign:
    """The work that waits, the children at work, and what they have found."""

    waiting: list[Slice]
    report: Report
    end: float
    folder: Path | None
    tell: Callable[[str], None]
    crew: list[Worker] = field(default_factory=list[Worker])

    def run(self, width: int) -> None:
        """Run all cases on this many cores."""
        try:
            while self.waiting or self.crew:
                self._start_more(width)
                time.sleep(0.05)
                for worker in list(self.crew):
                    self._look(worker)
        finally:
            for worker in self.crew:
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
                worker.close()

    def _start_more(self, width: int) -> None:
        """Start what fits beside what is at work, in order."""
        for slice_ in list(self.waiting):
            if sum(worker.slice.target.load for worker in self.crew) + slice_.target.load <= width:
                self.waiting.remove(slice_)
                self.crew.append(Worker(slice_))

    def _look(self, worker: Worker) -> None:
        """Take in what a child has reported, and what is left of its slice once it has ended."""
        code = worker.ended()
        found = worker.findings()
        for finding in found:
            self._take(finding)
        if code is None:
            return
        self.crew.remove(worker)
        if code == BROKEN:
            raise RuntimeError(f"the target {worker.slice.target.name} itself failed:\n{worker.stacks()}")
        if worker.slice.slack > 1:
            self._look_again(worker, code, found)
        else:
            self._go_on(worker, code)
        worker.close()

    def _go_on(self, worker: Worker, code: int) -> None:
        """Count what a child has done. A case that ended its child is run again alone, and the rest without it."""
        slice_, counts = worker.slice, worker.counts
        tally = self.report.tallies[slice_.target.name]
        tally.add(counts)
        tally.seconds += worker.age
        self.tell(
            f"{slice_.target.name:<12}{tally.cases:>8} cases  {tally.refused:>8} refused  {tally.findings:>4} findings"
        )
        broke = int(code != 0)
        reason = f"hang {_innermost(worker.stacks())}"
        if broke and self.report.reasons[f"{slice_.target.name}: {reason}"] >= KEPT_PER_REASON:
            tally.cases += 1
            self._take(Finding(Case(slice_.target.name, slice_.seed, counts.number, None), "hang", reason, ""))
        elif broke:
            again = replace(slice_, first=counts.number, cases=1, seconds=3600, slack=RETRY_SLACK)
            self.waiting.insert(0, again)
        left = min(slice_.seconds - worker.age, self.end - time.monotonic())
        cases = None if slice_.cases is None else slice_.cases - counts.cases - broke
        if left > 0.5 and cases != 0:
            self.waiting.append(replace(slice_, first=counts.number + broke, seconds=left, cases=cases))

    def _look_again(self, worker: Worker, code: int, found: Sequence[Finding]) -> None:
        """Run a case that ended its child again with wider bounds; if that fails too, it is a finding."""
        slice_ = worker.slice
        tally = self.report.tallies[slice_.target.name]
        tally.cases += 1
        if code == 0:
            counts = worker.counts
            tally.accepted += counts.accepted
            tally.refused += counts.refused
        elif not found:
            kind, stacks = "hang" if code > 0 else "crash", worker.stacks()
            case = Case(slice_.target.name, slice_.seed, slice_.first, worker.payload())
            detail = stacks[-6000:] or f"the process ended with {code}"
            self._take(Finding(case, kind, f"{kind} {_innermost(stacks)}", detail))

    def _take(self, finding: Finding) -> None:
        if self.report.take(finding, self.folder):
            self.tell(f"FINDING {finding.case.target}: {finding.signature}")


def run_campaign(
    targets: Sequence[type[Target]],
    *,
    seconds: float,
    seed: int,
    workers: int | None = None,
    cases: int | None = None,
    folder: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Fuzz these targets for a time, or a number of cases each; failing cases are saved to `folder`."""
    width = workers or os.cpu_count() or 1
    report = Report(seed, tallies={target.name: Tally() for target in targets})
    for module in {target.heavy for target in targets} - {""}:
        import_module(module)
    start = time.monotonic()
    slices = _slices(targets, seconds * width, seed, cases)
    Campaign(slices, report, start + seconds, folder, tell).run(width)
    report.seconds = time.monotonic() - start
    return report


def _slices(targets: Sequence[type[Target]], seconds: float, seed: int, cases: int | None) -> list[Slice]:
    """The work in slices, the targets in turn, so that each has been looked at early. The first has the corpus."""
    whole = sum(target.weight for target in targets)
    slices: list[tuple[int, Slice]] = []
    for target in targets:
        share = seconds * target.weight / whole / target.load
        beside = round(1 / target.load)  # so many fit on a core, so that they end with the others
        count = 1 if cases is not None else max(beside, round(share / LONGEST_SLICE))
        slices += [
            (turn, Slice(target, seed, -BLOCK if turn == 0 else turn * BLOCK, share / count, cases))
            for turn in range(count)
        ]
    return [one for _, one in sorted(slices, key=lambda pair: pair[0])]


def _innermost(stacks: str) -> str:
    """The innermost places in the product where a hanging case stood."""
    lines = [line.strip() for line in stacks.splitlines() if "teamwright" in line and "tests" not in line]
    return " < ".join(line.partition("teamwright/")[2] for line in lines[:2])


def replay(case: Case, targets: Sequence[type[Target]], folder: Path) -> str | Finding:
    """Run one saved case in this process."""
    made = next(one for one in targets if one.name == case.target)(folder)
    try:
        return run_case(made, case)
    finally:
        made.close()


def warn(text: str) -> None:
    """Say something beside the result."""
    print(text, file=sys.stderr, flush=True)
