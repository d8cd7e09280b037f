"""Who may spend how much: the estimates of the work stand, and coordination shares what is left of the run's budget.

A pure function; what is really spent is the ledger's matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.planning.schedule.schedule import Allotment
from teamwright.values.specs.plan import Step


def allot(steps: Sequence[Step], run_budget: int | None, floor: int) -> tuple[Allotment, ...]:
    """Tokens for each step, in the order of the steps.

    What a step asks for coordination is raised to the floor. Under pressure every step gets its floor and a share of
    the rest in proportion to what it asked above the floor, never more than it asked; where not even the floors fit,
    all get the same; where the work alone reaches the budget, nothing is left.
    """
    asked = [max(step.coordination_tokens, floor) for step in steps]
    if run_budget is not None:
        left = max(0, run_budget - sum(step.execution_tokens for step in steps))
        if sum(asked) > left:
            asked = _shared(asked, left, floor)
    return tuple(
        Allotment(task=step.id, execution=step.execution_tokens, coordination=coordination)
        for step, coordination in zip(steps, asked, strict=True)
    )


def _shared(asked: Sequence[int], left: int, floor: int) -> list[int]:
    """Less than was asked: all of `left`, and not a token more."""
    count = len(asked)
    if left <= floor * count:
        return _filled_up([left // count] * count, asked, left)
    above = [one - floor for one in asked]
    rest, total = left - floor * count, sum(above)
    return _filled_up([floor + rest * one // total for one in above], asked, left)


def _filled_up(given: list[int], asked: Sequence[int], left: int) -> list[int]:
    """Hand out what division left over, one by one from the first; more steps want one than there are tokens."""
    over = left - sum(given)
    for place, (one, most) in enumerate(zip(given, asked, strict=True)):
        if not over:
            break
        if one < most:
            given[place] += 1
            over -= 1
    return given
