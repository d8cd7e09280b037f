"""What published measurements say about teams of agents. Advice uses it until the user's own runs outweigh it.

The figures summarize the 180 rows of arXiv 2512.08296: nine models on four benchmarks, alone and in four kinds of
teams. A test computes each of them again from the rows, and `docs/lab.md` shows how good advice based on them is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from teamwright.history.kpi_gates import lower_bound
from teamwright.values.models import Record

SCALING, EQUAL_TOKENS = "arXiv 2512.08296", "arXiv 2604.02460"

WorkKind = Literal["sequential", "mixed", "divisible"]


class TeamEffect(NamedTuple):
    """How the pass rate of a coordinated team differs from that of one agent.

    On work that can be divided, a team removes a share of one agent's failures. On sequential work, it loses a share of
    one agent's successes. Other work lies in between.
    """

    removed: float
    lost: float


class HeldOut(NamedTuple):
    """In how many cells (a model on a benchmark) advice came within 0.05 of the best shape.

    The advice for a benchmark was fitted to the others.
    """

    within: int
    cells: int
    benchmarks: tuple[str, ...]


class MeanLoss(NamedTuple):
    """How much less than the best shape was solved on average, by advice and by one agent everywhere.

    `low` and `high` bound their difference when the benchmarks are drawn again.
    """

    advice: float
    alone: float
    low: float
    high: float


MEASURED = TeamEffect(removed=0.416, lost=0.435)
HELD_OUT: Mapping[WorkKind, HeldOut] = {
    "sequential": HeldOut(9, 9, ("PlanCraft",)),
    "mixed": HeldOut(9, 18, ("BrowseComp-Plus", "WorkBench")),
    "divisible": HeldOut(8, 9, ("Finance-Agent",)),
}
ALWAYS_ALONE = 19
"""In so many of the 36 cells, one agent came within 0.05 of the best shape."""
MEAN_LOSS = MeanLoss(advice=0.032, alone=0.103, low=0.0, high=0.212)
FAILURES_INDEPENDENT, FAILURES_CENTRAL = 1.30, 1.11
"""Failures divided by those of one agent, on average over cells."""
MOST_TRUST = 0.66
"""Each kind of work was measured on one or two benchmarks, so published figures alone never give high confidence."""


class Prior(Record, frozen=True):
    """A finding, its source, and what it means for this work."""

    finding: str
    source: str
    here: str


def team_pass_rate(divisible: float, alone: float, effect: TeamEffect = MEASURED) -> float:
    """The pass rate of a coordinated team on work on which one agent has the pass rate `alone`."""
    return alone + divisible * effect.removed * (1 - alone) - (1 - divisible) * effect.lost * alone


def work_kind(divisible: float) -> WorkKind:
    """The kind of benchmark that work with this divisible share resembles most."""
    return "sequential" if divisible < 0.25 else "mixed" if divisible <= 0.75 else "divisible"


def trust_in_published(divisible: float) -> float:
    """How far published figures can be trusted on work of this kind, from 0 to 1.

    It is the lower bound of the held-out share, at most `MOST_TRUST`.
    """
    found = HELD_OUT[work_kind(divisible)]
    return min(MOST_TRUST, lower_bound(found.within, found.cells))


def validation_reason(divisible: float) -> str:
    """How good advice like this was on benchmarks that it was not fitted to."""
    kind = work_kind(divisible)
    here, every = HELD_OUT[kind], HELD_OUT.values()
    within, cells = sum(one.within for one in every), sum(one.cells for one in every)
    return (
        f"on a benchmark it was not fitted to, such advice came within 0.05 of the best shape in {here.within} of"
        f" {here.cells} cases of {kind} work ({', '.join(here.benchmarks)}), and in {within} of {cells} overall, where"
        f" one agent everywhere came to {ALWAYS_ALONE}"
    )


def priors(divisible: float, alone: float) -> tuple[Prior, ...]:
    """The findings, and what each means for this work."""
    rate = team_pass_rate(divisible, alone)
    loss = MEAN_LOSS
    return (
        Prior(
            finding=f"a coordinated team removes {MEASURED.removed:.0%} of one agent's failures on work that can be"
            f" divided, and loses {MEASURED.lost:.0%} of its successes on sequential work",
            source=SCALING,
            here=f"{divisible:.0%} of this work can be divided: a team is estimated to be right in {rate:.0%}, and one"
            f" agent in {alone:.0%}",
        ),
        Prior(
            finding="above 45% right for one agent, no team gained in sequential planning (0 of 8 cases), but some team"
            " did in 8 of the 12 other cases",
            source=SCALING,
            here="no threshold is used",
        ),
        Prior(
            finding=f"tasks fail {FAILURES_INDEPENDENT:.2f} times as often with independent agents as with one, and"
            f" {FAILURES_CENTRAL:.2f} times with a lead; the often cited 17 and 4 times are ratios of overhead tokens",
            source=SCALING,
            here="teams without coordination are not recommended",
        ),
        Prior(
            finding=f"advice by these figures solves {loss.advice:.3f} less than the best shape on average, and one"
            f" agent everywhere {loss.alone:.3f} less; the difference comes from one benchmark of four, and may be"
            f" {loss.low:.3f} to {loss.high:.3f}",
            source=SCALING,
            here="it is not certain to be better than always using one agent",
        ),
        Prior(
            finding="one agent matches a team that uses the same number of tokens",
            source=EQUAL_TOKENS,
            here="a team is chosen only if its score is clearly above that of one agent",
        ),
    )
