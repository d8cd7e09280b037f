"""The envelopes of a schedule: every task once, within the policy, with an estimate of their tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.strategies.plan.schedule import (
    ScheduleBatch,
    batch_envelopes,
    batch_risk,
    envelope_tokens,
    envelopes_tokens,
)
from teamwright.strategies.plan.schedule_maker import PlannerSettings, make_schedule
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.turns.messages import EnvelopeLimits
from tests.strategies.plan.plans import plan, plans


def test_each_batch_has_one_envelope() -> None:  # Z-08
    steps = (
        Step(id="core", owns=("src",), execution_tokens=120, coordination_tokens=20),
        Step(id="web", needs=("core",), owns=("web",), execution_tokens=100, coordination_tokens=20),
        Step(id="api", needs=("core",), owns=("api",), execution_tokens=90, coordination_tokens=20),
    )
    made = Plan(steps=steps)
    first, second = batch_envelopes("run-7", make_schedule(made), made)
    assert (first.run_id, first.task_id, first.sender, first.recipient) == ("run-7", "batch-0", "planner", "workers")
    assert (first.status, first.needs, first.artifacts, first.risk_level) == ("queued", (), ("task://core",), "low")
    assert first.summary == "Batch 0: 140 tokens; locks src; tasks core."
    assert (second.needs, second.risk_level) == (("batch-0",), "medium")
    assert second.artifacts == ("task://web", "task://api")
    assert second.summary == "Batch 1: 230 tokens; locks api, web; tasks web, api."


def test_a_batch_with_more_tasks_than_pointers_makes_several_envelopes() -> None:  # Z-08
    wide = plan(**{f"s{number:02}": f"/ key-{number:02}" for number in range(20)}, end="s03")
    told = batch_envelopes("r", make_schedule(wide, PlannerSettings(max_parallel=30)), wide)
    assert [len(one.artifacts) for one in told] == [8, 8, 4, 1]
    assert [one.task_id for one in told] == ["batch-0", "batch-0", "batch-0", "batch-1"]
    assert told[1].summary.startswith("Batch 0, part 2 of 3: 64 tokens; locks key-08, key-09, ")
    assert {one.risk_level for one in told[:3]} == {"high"}
    assert told[3].needs == ("batch-0",)


@given(plans(), st.integers(1, 12), st.integers(1, 9), st.integers(16, 60))
def test_every_task_is_pointed_at_once_and_every_envelope_keeps_to_the_policy(
    plan: Plan, width: int, pointers: int, characters: int
) -> None:  # Z-08, Z-02
    policy = EnvelopeLimits(max_artifacts=pointers, max_summary_chars=characters)
    schedule = make_schedule(plan, PlannerSettings(max_parallel=width))
    told = batch_envelopes("r", schedule, plan, policy)
    assert [pointer for one in told for pointer in one.artifacts] == [
        f"task://{task}" for batch in schedule.batches for task in batch.tasks
    ]
    assert not [breach for one in told for breach in policy.check(one)]
    assert envelopes_tokens(told) == sum(map(envelope_tokens, told))


@pytest.mark.parametrize(
    ("tasks", "tokens", "risk"),
    [
        (1, 4000, "low"),
        (1, 4001, "medium"),
        (2, 0, "medium"),
        (3, 12_000, "medium"),
        (1, 12_001, "high"),
        (4, 0, "high"),
    ],
)
def test_the_risk_of_a_batch_goes_by_its_size(tasks: int, tokens: int, risk: str) -> None:  # Z-08
    batch = ScheduleBatch(index=0, tasks=tuple(map(str, range(tasks))), locks=(), tokens=tokens)
    assert batch_risk(batch) == risk


def test_an_envelope_costs_eight_tokens_and_a_quarter_of_the_characters_of_each_text() -> None:  # Z-08
    made = plan(a="")
    (told,) = batch_envelopes("r", make_schedule(made), made)
    written = told.model_copy(
        update={"summary": "x" * 17, "next_action": "go", "artifacts": ("12345", "1234"), "needs": ("n",)}
    )
    assert envelope_tokens(written) == 8 + 5 + 1 + (2 + 1) + 1
    assert envelope_tokens(written.model_copy(update={"artifacts": (), "needs": ()})) == 8 + 5 + 1
