"""The KPIs of many runs as one: counts, tokens, times and money are added up, and ratios follow from the sums.

Pure. A percentile can't be added up, so the total has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import sqrt

from teamwright.errors import UsageError
from teamwright.history.kpis import Kpis
from teamwright.values.results import Status

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
