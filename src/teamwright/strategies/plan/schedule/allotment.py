"""Allots tokens to steps: execution gets its estimates, and coordination shares the rest of the run's budget.

Pure planning: the ledger enforces what is really spent.
"""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.strategies.plan.schedule.schedule import Allotment
from teamwright.values.specs.plan import Step


def allot(steps: Sequence[Step], run_budget: int | None, floor: int) -> tuple[Allotment, ...]:
    """Return the tokens for each step, in the order of the steps.

    Each step's request for coordination is raised to the floor. If the requests exceed the budget, every step gets the
    floor and a share of the rest in proportion to its request above the floor, never more than it requested; if not
    even the floors fit, all steps get the same; if execution alone uses up the budget, coordination gets nothing.
    """
    requested = [max(step.coordination_tokens, floor) for step in steps]
    if run_budget is not None:
        available = max(0, run_budget - sum(step.execution_tokens for step in steps))
        if sum(requested) > available:
            requested = _shared(requested, available, floor)
    return tuple(
        Allotment(task=step.id, execution=step.execution_tokens, coordination=coordination)
        for step, coordination in zip(steps, requested, strict=True)
    )


def _shared(requested: Sequence[int], available: int, floor: int) -> list[int]:
    """Divide exactly the available tokens, which are fewer than requested."""
    count = len(requested)
    if available <= floor * count:
        return _distribute_remainder([available // count] * count, requested, available)
    above = [one - floor for one in requested]
    rest, total = available - floor * count, sum(above)
    return _distribute_remainder([floor + rest * one // total for one in above], requested, available)


def _distribute_remainder(allotted: list[int], requested: Sequence[int], available: int) -> list[int]:
    """Distribute the remainder of the division, one token per step from the first; no step exceeds its request."""
    remainder = available - sum(allotted)
    for index, (tokens, most) in enumerate(zip(allotted, requested, strict=True)):
        if not remainder:
            break
        if tokens < most:
            allotted[index] += 1
            remainder -= 1
    return allotted
