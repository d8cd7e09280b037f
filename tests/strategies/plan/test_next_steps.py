"""The decisions of a lead: read from its answer, with every mistake in its words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from teamwright.strategies.plan.next_steps import StepsSoFar

from teamwright.strategies.hierarchical import decision_schema, example_decision, read_decision
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.turns.turn import Reply

ROLES = ["reader", "tester"]
LOGS = {"id": "logs", "role": "reader", "task": "Read the logs."}


def read(value: Any, so_far: StepsSoFar | None = None, *, most: int = 5, create_roles: bool = False) -> list[str] | str:
    reply = Reply.of("lead", json.dumps(value))
    found = read_decision(reply, ROLES, so_far or StepsSoFar(), most, create_roles=create_roles)
    return found.problem if isinstance(found, ParseFailure) else [step.id for step in found[0].steps]


def after_logs() -> StepsSoFar:
    so_far = StepsSoFar()
    found = read_decision(
        Reply.of("lead", json.dumps({"action": "work", "steps": [LOGS]})), ROLES, so_far, 5, create_roles=False
    )
    assert not isinstance(found, ParseFailure)
    so_far.add(found[0].steps, found[1])
    so_far.with_results.add("logs")
    return so_far


@pytest.mark.parametrize(
    "value", [{"action": "work", "steps": [LOGS]}, {"action": " WORK", "steps": LOGS, "why": "so"}]
)
def test_a_decision_is_read_in_the_forms_that_models_use(value: Any) -> None:
    assert read(value) == ["logs"]


def test_the_answer_needs_a_step_before_it() -> None:
    assert read({"action": "answer"}) == "no step was done yet; decide on one"
    assert read({"action": "answer"}, after_logs()) == []


def test_an_earlier_result_can_be_read_and_its_id_not_be_used_again() -> None:
    disk = {"id": "disk", "role": "tester", "task": "Is it full?", "needs": ["logs"]}
    assert read({"action": "work", "steps": [disk]}, after_logs()) == ["disk"]
    assert "logs" in read({"action": "work", "steps": [{**LOGS, "task": "Again."}]}, after_logs())


@pytest.mark.parametrize(("reason", "is_new"), [("", False), (" ", False), ("The file has changed.", True)])
def test_the_same_work_needs_a_reason_that_was_not_given(reason: str, is_new: bool) -> None:
    again = {**LOGS, "id": "again", "task": " read the  LOGS. ", "reason": reason}
    found = read({"action": "work", "steps": [again]}, after_logs())
    assert found == (["again"] if is_new else "the step 'again' repeats an earlier one, which needs a new reason")


def test_a_new_role_needs_leave_and_instructions() -> None:
    new = {**LOGS, "role": "sceptic"}
    assert "which does not exist" in read({"action": "work", "steps": [new]})
    assert "needs instructions" in read({"action": "work", "steps": [new]}, create_roles=True)
    full = {**new, "instructions": "You doubt."}
    assert read({"action": "work", "steps": [full]}, create_roles=True) == ["logs"]


@pytest.mark.parametrize("create_roles", [False, True])
def test_a_simulated_lead_decides_on_a_step_for_each_role_and_then_answers(create_roles: bool) -> None:
    schema = decision_schema(ROLES, create_roles=create_roles)
    assert read(example_decision(schema, 1)) == ["step-1", "step-2"]
    assert example_decision(schema, 2) == {"action": "answer"}
    assert example_decision({"type": "object"}, 1) is None
