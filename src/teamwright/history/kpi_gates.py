"""Bounds on the KPIs of runs, and the KPIs of many runs as one. A gate checks the rounded figure, as it is shown.

In a total, counts, tokens, times and money are added up, and ratios follow from the sums; it has no percentile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import isfinite, sqrt
from typing import Literal, cast

from pydantic import JsonValue

from teamwright.errors import UnknownName, UsageError
from teamwright.history.kpis import FIGURES, Kpis
from teamwright.values.turns.results import Status
from teamwright.values.value import Record

Bound = Literal["<=", ">="]

DEFAULT = "default"
ON_PASSED = frozenset(("pass_rate", "defect_escape", "passed", "throughput"))
"""The figures that follow from the steps that passed."""
_GATE = re.compile(r"\s*([A-Za-z0-9_]+)\s*(<=|>=)\s*([0-9.eE+_-]+)\s*")


class KpiGate(Record, frozen=True):
    """A bound on one figure."""

    figure: str
    bound: Bound
    limit: float

    def __str__(self) -> str:
        return f"{self.figure}{self.bound}{self.limit:.10g}"

    def holds(self, value: float | None) -> bool:
        """Whether a value is within the bound; an unknown value is not."""
        if value is None:
            return False
        return value <= self.limit if self.bound == "<=" else value >= self.limit


DEFAULTS = (
    KpiGate(figure="coordination_ratio", bound="<=", limit=0.20),
    KpiGate(figure="pass_rate", bound=">=", limit=0.80),
)


class GateResult(Record, frozen=True):
    """A gate, the value it was checked against, and whether that passed.

    `assumed` counts the steps behind the value without a review, so that they are only assumed to have passed.
    """

    gate: KpiGate
    value: float | None
    passed: bool
    assumed: int = 0

    def to_json(self) -> dict[str, JsonValue]:
        """JSON data, with the gate as its expression."""
        found: dict[str, JsonValue] = {"gate": str(self.gate), "figure": self.gate.figure}
        return found | {"value": self.value, "passed": self.passed, "assumed": self.assumed}

    @property
    def words(self) -> str:
        """The gate, the value and the bound as a sentence."""
        shown = "unknown, since the run has no data for it" if self.value is None else f"{self.value:.10g}"
        shown += f" ({self.assumed} assumed)" if self.assumed else ""
        bound = "may be at most" if self.gate.bound == "<=" else "has to be at least"
        return f"{self.gate}: {self.gate.figure} is {shown}, and {bound} {self.gate.limit:.10g}"


def read_gates(texts: Iterable[str], figures: Collection[str] = FIGURES) -> tuple[KpiGate, ...]:
    """Parse gates on these figures, such as `pass_rate>=0.8`; `default` means the two default gates."""
    found: list[KpiGate] = []
    for text in texts:
        found.extend(DEFAULTS if text.strip() == DEFAULT else [_read(text, figures)])
    return tuple(dict.fromkeys(found))


def check_gates(gates: Sequence[KpiGate], kpis: Kpis) -> tuple[GateResult, ...]:
    """Check the KPIs of a run against gates."""
    return tuple(_checked(gate, kpis) for gate in gates)


def _checked(gate: KpiGate, kpis: Kpis) -> GateResult:
    value = kpis.figure(gate.figure)
    assumed = kpis.assumed if gate.figure in ON_PASSED else 0
    return GateResult(gate=gate, value=value, passed=gate.holds(value), assumed=assumed)


def _read(text: str, figures: Collection[str]) -> KpiGate:
    parts = _GATE.fullmatch(text)
    limit = _number(parts[3]) if parts else None
    if parts is None or limit is None:
        raise UsageError(
            f"{text!r} is no gate: write a figure, <= or >=, and a number, such as  pass_rate>=0.8  (in quotes, since"
            f" the shell reads < and >), or  {DEFAULT}"
        )
    if parts[1] not in figures:
        raise UnknownName("figure", parts[1], figures)
    return KpiGate(figure=parts[1], bound=cast("Bound", parts[2]), limit=limit)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


TOTAL = "total"
SUMMED = (
    "steps", "passed", "failed", "stopped", "open", "skipped", "asks", "total_tokens", "work_tokens",
    "coordination_tokens", "judge_tokens", "cached_tokens", "unmetered", "judged",
)  # fmt: skip
WORST: tuple[Status, ...] = (
    "failed", "timeout", "cancelled", "interrupted", "degraded", "paused", "running", "queued", "completed",
)  # fmt: skip
"""All statuses; the first of them that a run has is that of the total."""
DEVIATIONS = 1.96
"""Standard deviations to either side of a mean that hold 95 % of a normal distribution."""


def total_of(runs: Sequence[Kpis]) -> Kpis:
    """Return the KPIs of these runs together; raises `UsageError` without any.

    A fork contains what it inherited, so a run and its fork count that twice.
    """
    if not runs:
        raise UsageError("There is no run to add up.")
    sums: Counter[str] = Counter()
    for run in runs:
        sums.update({name: getattr(run, name) for name in SUMMED})
    seconds = round(sum(run.seconds for run in runs), 2)
    per_day = sum((run.throughput or 0.0) * run.seconds for run in runs)
    pass_rate = round(sums["passed"] / sums["steps"], 4) if sums["steps"] else None
    total, statuses, teams = sums["total_tokens"], {run.status for run in runs}, {run.team for run in runs}
    return Kpis(
        run_id=TOTAL,
        team=teams.pop() if len(teams) == 1 else "",
        status=next(status for status in WORST if status in statuses),
        stop_reason=None,
        seconds=seconds,
        throughput=round(per_day / seconds, 2) if seconds > 0 else None,
        pass_rate=pass_rate,
        defect_escape=None if pass_rate is None else round(1 - pass_rate, 4),
        coordination_ratio=round(sums["coordination_tokens"] / total, 4) if total else None,
        p95_latency_s=None,
        # A price that is not known is never taken for nothing.
        usd=None if any(run.usd is None and run.total_tokens for run in runs) else _sum(run.usd for run in runs),
        saved_usd=_sum(run.saved_usd for run in runs),
        messages=_whole(_sum(run.messages for run in runs)),
        **{name: sums[name] for name in SUMMED},
    )


def _sum(amounts: Iterable[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known), 12) if known else None


def _whole(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def lower_bound(hits: int, n: int) -> float:
    """The lower bound of Wilson's 95 % interval of a share of which `hits` of `n` cases are known."""
    share, square = hits / n, DEVIATIONS**2
    spread = DEVIATIONS * sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, (share + square / (2 * n) - spread) / (1 + square / n))
