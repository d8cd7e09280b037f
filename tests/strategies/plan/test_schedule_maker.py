"""Schedules from plans: valid whatever the plan, the same every time, and refused with every reason."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import InvalidValue, PlanError, UsageError
from teamwright.strategies.plan.schedule import validate_schedule
from teamwright.strategies.plan.schedule_maker import PlannerSettings, make_schedule
from teamwright.values.specs.plan import Plan, Step
from tests.growth import assert_linear_calls
from tests.strategies.plan.plans import LARGE, plan, plans, work


def settings() -> st.SearchStrategy[PlannerSettings]:
    return st.builds(
        PlannerSettings,
        max_parallel=st.integers(1, 6),
        run_budget=st.none() | st.integers(0, 3000),
        coordination_floor=st.integers(0, 20),
    )


@given(plans(), settings())
def test_every_schedule_is_valid(plan: Plan, settings: PlannerSettings) -> None:  # Z-04, Z-05, Z-07
    schedule = make_schedule(plan, settings)
    assert validate_schedule(schedule, plan) == []
    assert max(len(batch.tasks) for batch in schedule.batches) <= settings.max_parallel
    assert [budget.task for budget in schedule.budgets] == [step.id for step in plan.steps]
    work = sum(step.execution_tokens for step in plan.steps)
    if settings.run_budget is not None:
        assert schedule.total_tokens <= max(settings.run_budget, work)


@given(plans(), settings())
def test_the_same_plan_gives_the_same_schedule(plan: Plan, settings: PlannerSettings) -> None:  # Z-04
    again = Plan.model_validate_json(plan.model_dump_json())
    assert make_schedule(again, settings) == make_schedule(plan, settings)


def test_a_schedule_has_order_batches_locks_and_tokens() -> None:  # Z-05
    steps = (
        Step(id="core", owns=("src/core",), execution_tokens=120, coordination_tokens=20),
        Step(id="web", needs=("core",), owns=("src/web", "docs"), execution_tokens=100),
        Step(id="api", needs=("core",), owns=("docs", "src/api"), execution_tokens=90),
    )
    schedule = make_schedule(Plan(steps=steps), PlannerSettings(max_parallel=2))
    assert schedule.order == ("core", "web", "api")
    assert [batch.to_json() for batch in schedule.batches] == [
        {"index": 0, "tasks": ["core"], "locks": ["src/core"], "tokens": 140},
        {"index": 1, "tasks": ["web"], "locks": ["docs", "src/web"], "tokens": 108},
        {"index": 2, "tasks": ["api"], "locks": ["docs", "src/api"], "tokens": 98},
    ]
    assert schedule.total_tokens == 346


def test_every_reason_is_reported_at_once_by_name() -> None:  # Z-04
    steps = [
        Step(id="a", needs=("b",)),
        Step(id="b", needs=("a", "nowhere")),
        Step(id="c", needs=("c",)),
        Step(id="c"),
        Step(id=""),
        Step(id="two words"),
        Step(id="d", owns=("",)),
    ]
    with pytest.raises(PlanError) as told:
        make_schedule(Plan(steps=tuple(steps)))
    assert isinstance(told.value, UsageError)
    assert len(told.value.problems) == 7
    for part in (
        "'a' needs 'b' needs 'a'",
        "'b' needs 'nowhere', which is no step",
        "'c' needs itself",
        "two steps are called 'c'",
        "step 5 has no id",
        "'two words' can't name a step",
        "'d' owns a key without a name",
    ):
        assert part in str(told.value)


def test_a_plan_has_steps_and_settings_have_bounds() -> None:
    with pytest.raises(InvalidValue, match="steps: is empty"):
        Plan(steps=())
    with pytest.raises(InvalidValue, match="at least 1"):
        PlannerSettings(max_parallel=0)


@pytest.mark.parametrize("shape", LARGE)
def test_the_work_grows_with_the_steps_and_no_faster(shape: str) -> None:
    small, large = LARGE[shape](600), LARGE[shape](2_400)
    assert work(lambda: make_schedule(large)) < 4.6 * work(lambda: make_schedule(small)) + 1000


def test_ten_thousand_steps_that_share_one_key_go_one_by_one() -> None:
    schedule = make_schedule(LARGE["one key"](10_000))
    assert [batch.tasks for batch in schedule.batches] == [(id_,) for id_ in schedule.order]


def test_keys_that_a_step_names_twice_are_one() -> None:
    schedule = make_schedule(plan(a="/ x x"))
    assert schedule.batches[0].locks == ("x",)
    assert not validate_schedule(schedule, plan(a="/ x x"))


def owning(size: int, key: str) -> Plan:
    return Plan(steps=tuple(Step(id=f"s{number}", owns=(key.format(number),)) for number in range(size)))


def refused(plan: Plan) -> str:
    try:
        make_schedule(plan)
    except PlanError as error:
        (text,) = error.problems
        return text
    return ""


def test_wildcards_that_would_all_be_compared_are_refused_at_once() -> None:  # S-01
    text = refused(owning(3000, "*{}/**"))
    assert "the steps own 3000 keys with wildcards so early that 4498500 pairs would have to be compared" in text
    assert_linear_calls(refused, prepare=lambda size: owning(size, "*{}/**"), size=1000)


@pytest.mark.parametrize("form", ["**/*a/" * 31 + "z{}", "*/" * 63 + "z{}", "*a" * 480 + "{}"])
def test_long_keys_that_would_all_be_compared_are_refused_at_once(form: str) -> None:  # S-01
    assert_linear_calls(refused, prepare=lambda size: owning(size, form), size=400)
    text = refused(owning(400, form))
    assert "the steps own 400 keys with wildcards so early that" in text
    assert "a pair of long keys counts as several" in text


def test_long_keys_that_are_few_are_planned() -> None:
    assert len(make_schedule(owning(15, "**/*a/" * 31 + "z{}")).order) == 15


@pytest.mark.parametrize("form", ["src/m{}/**", "src/m{}_*.py", "src/m{}.[ch]"])
def test_wildcards_behind_folders_of_their_own_are_planned_in_linear_time(form: str) -> None:  # S-01
    assert_linear_calls(make_schedule, prepare=lambda size: owning(size, form), size=500)
    assert len(make_schedule(owning(3000, form)).order) == 3000


@pytest.mark.parametrize(("key", "told"), [("a/" * 70, "of 70 parts"), ("x" * 1001, "of 1001 characters")])
def test_keys_have_a_longest_form(key: str, told: str) -> None:  # S-01
    assert told in refused(Plan(steps=(Step(id="a", owns=(key,)),)))
