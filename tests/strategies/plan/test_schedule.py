"""A schedule is held against its plan, and every way to be wrong is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from teamwright.strategies.plan.schedule import Allotment, Schedule, ScheduleBatch, validate_schedule
from teamwright.strategies.plan.schedule_maker import make_schedule
from teamwright.values.specs.plan import Plan, Step
from tests.strategies.plan.plans import plans

PLAN = Plan(
    steps=(
        Step(id="a", owns=("core",), execution_tokens=100, coordination_tokens=20),
        Step(id="b", needs=("a",), owns=("web",), execution_tokens=50, coordination_tokens=10),
        Step(id="c", needs=("a",), owns=("web",), execution_tokens=50, coordination_tokens=10),
    )
)
SCHEDULE = make_schedule(PLAN)


def with_batch(number: int, **changes: object) -> Schedule:
    batches = list(SCHEDULE.batches)
    batches[number] = batches[number].changed(**changes)
    return SCHEDULE.changed(batches=tuple(batches))


def with_budget(**changes: object) -> Schedule:
    return SCHEDULE.changed(budgets=(SCHEDULE.budgets[0].changed(**changes), *SCHEDULE.budgets[1:]))


def merged() -> Schedule:
    both = ScheduleBatch(index=1, tasks=("b", "c"), locks=("web",), tokens=120)
    return SCHEDULE.changed(batches=(SCHEDULE.batches[0], both))


def too_early() -> Schedule:
    both = ScheduleBatch(index=0, tasks=("a", "b"), locks=("core", "web"), tokens=180)
    return SCHEDULE.changed(batches=(both, SCHEDULE.batches[2].changed(index=1)))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (SCHEDULE.changed(order=("b", "a", "c")), "the order has 'b' before 'a', which it needs"),
        (SCHEDULE.changed(order=("a", "b")), "the order lacks 'c'"),
        (SCHEDULE.changed(order=("a", "b", "c", "d")), "the order has 'd', which is no step of the plan"),
        (SCHEDULE.changed(order=("a", "b", "c", "b")), "the order has 'b' twice"),
        (SCHEDULE.changed(batches=SCHEDULE.batches[:2], total_tokens=180), "the batches lacks 'c'"),
        (SCHEDULE.changed(budgets=SCHEDULE.budgets[:2]), "the budgets lacks 'c'"),
        (with_batch(0, index=3), "batch 0 says that it is batch 3"),
        (too_early(), "batch 0 has 'b', which needs 'a' of batch 0"),
        (merged(), "in batch 1 both 'b' and 'c' own 'web'"),
        (with_batch(1, locks=()), "batch 1 locks [], and its tasks own ['web']"),
        (with_batch(1, tokens=1), "batch 1 has 1 tokens, and its tasks are allotted 60"),
        (SCHEDULE.changed(total_tokens=7), "the schedule has 7 tokens, and its batches 240"),
        (with_budget(execution=90), "'a' is allotted 90 tokens for its work, and its estimate is 100"),
        (with_budget(coordination=-1), "'a' is allotted -1 tokens for coordination"),
    ],
)
def test_each_fault_of_a_schedule_is_reported(schedule: Schedule, expected: str) -> None:  # Z-07
    assert validate_schedule(SCHEDULE, PLAN) == []
    assert any(expected in problem for problem in validate_schedule(schedule, PLAN))


CHANGES: list[Callable[[Schedule], Schedule]] = [
    lambda one: one.changed(order=(*one.order[1:], one.order[0], one.order[0])),
    lambda one: one.changed(batches=one.batches[:-1]),
    lambda one: one.changed(batches=(one.batches[0].changed(index=9), *one.batches[1:])),
    lambda one: one.changed(batches=(*one.batches[:-1], one.batches[-1].changed(tokens=one.batches[-1].tokens + 1))),
    lambda one: one.changed(total_tokens=one.total_tokens - 1),
    lambda one: one.changed(budgets=(*one.budgets, Allotment(task="nobody", execution=0, coordination=0))),
]


@pytest.mark.parametrize("change", range(len(CHANGES)))
@given(plan=plans(most=6))
def test_no_change_of_a_schedule_goes_unseen(change: int, plan: Plan) -> None:  # Z-07
    assert validate_schedule(CHANGES[change](make_schedule(plan)), plan)


def test_a_schedule_of_another_plan_is_reported_with_every_step() -> None:
    other = Plan(steps=(Step(id="x"), Step(id="y")))
    told = validate_schedule(SCHEDULE, other)
    assert sum("which is no step of the plan" in one for one in told) == 9
    assert sum("lacks" in one for one in told) == 6
