"""A person sees the plan before work starts: approves it, edits it, or rejects it."""

from __future__ import annotations

import json
from typing import Any

from pydantic import JsonValue

from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.people import Answer, Question
from teamwright.values.turns.results import RunResult
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK

QUESTION: JsonValue = {"id": "q", "judge": "Is it good?"}
PLAN: dict[str, Any] = {"steps": [{"id": "look", "role": "ana", "task": "Look."}]}


async def answered(fakes: FakeMembers, *answers: Answer) -> tuple[RunResult, list[Question]]:
    helper, left, seen = fakes.member("planner", json.dumps(PLAN)), list(answers), list[Question]()
    options: dict[str, JsonValue] = {"lead": "planner", "confirm": True}
    team = Team("t", members=fakes.members("ana ben"), helpers=[helper], strategy="expert", options=options)

    async with Engine("memory") as engine:
        result = await engine.run(team, TASK, run_id="r")
        while result.status == "paused":
            history = await engine.runs.history("r")
            ((key, question),) = history.questions().items()
            seen.append(question)
            await engine.runs.answer("r", key, left.pop(0))
            result = await engine.resume("r", team=team)
        return result, seen


async def test_a_plan_that_is_approved_is_executed() -> None:  # K-15
    fakes = FakeMembers()
    result, (question,) = await answered(fakes, Answer.approve())
    assert (result.status, result.output) == ("completed", "ana is done")
    assert json.loads(question.draft or "") == {"steps": [{"id": "look", "agent": "ana", "task": "Look."}]}
    assert fakes.calls == ["planner", "ana"]


async def test_a_plan_that_is_edited_is_executed_as_edited() -> None:  # K-15
    fakes = FakeMembers()
    steps: JsonValue = {"steps": [{"id": "tell", "role": "ben", "task": "Tell {{ it }}."}]}
    result, _ = await answered(fakes, Answer.edit(steps))
    assert (result.status, result.output) == ("completed", "ben is done")
    assert fakes.last_turn("ben").task == "Tell {{ it }}."


async def test_an_edit_that_can_not_be_executed_is_asked_for_again_with_the_reason() -> None:
    wrong: list[JsonValue] = [
        {"steps": [{"id": "a", "role": "cat"}]},
        {"steps": [{"id": "a", "rule": "ben"}]},
        {"steps": []},
        {"steps": [{"id": "a", "role": "ben", "evaluate": {"criteria": [QUESTION]}}]},
        {"steps": [{"id": "a", "role": "ben", "evaluate": {"criteria": [QUESTION], "judge": "cat"}}]},
        {"steps": [{"id": "a", "role": "ben", "evaluate": {"criteria": [QUESTION], "judge": "ben"}}]},
        {"steps": [{"id": "a", "role": "ben", "evaluate": {"evaluator": "oracle"}}]},
        {"steps": [{"id": "a", "role": "ben", "evaluate": {"criteria": [{"id": "q", "function": "no_such:check"}]}}]},
    ]
    result, seen = await answered(FakeMembers(), *map(Answer.edit, wrong), Answer.approve())
    assert result.status == "completed"
    reasons = [
        "there is neither a role nor a member 'cat'", "did you mean 'role'", "steps", "needs a judge", "'cat'",
        "can't judge its own work", "there is no evaluator 'oracle'", "a manifest alone names code",
    ]  # fmt: skip
    for reason, question in zip(reasons, seen[1:], strict=True):
        assert reason in question.text


async def test_a_plan_that_is_rejected_ends_the_team_before_anybody_works() -> None:  # K-15
    fakes = FakeMembers()
    result, _ = await answered(fakes, Answer.reject("too small"))
    assert (result.status, result.stop_reason) == ("failed", "planning")
    assert "too small" in (result.failure.message if result.failure else "")
    assert fakes.calls == ["planner"]
