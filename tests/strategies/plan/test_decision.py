"""Debates that end with a decision: options, the chosen one, reasons, and who is against it, as data of the result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teamwright.errors import ManifestError
from teamwright.strategies.plan.decision import decision_of, decision_schema
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamStepFailed
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.collaboration import facts
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.runs import run

STEPS: list[Any] = [{"id": "a"}, {"id": "b", "needs": ["a"]}]
DECIDED = {
    "options": ["larch", "steel"],
    "chosen": "larch",
    "reasons": ["It is here."],
    "dissent": [{"member": "b", "says": "It rots."}],
}


def debate(*answers: object, preset: str = "collaborate", **options: Any) -> tuple[FakeMembers, Team]:
    fakes, given = FakeMembers(), list(answers)

    def lead(turn: Turn) -> str | None:
        fields: Any = (turn.output_schema or {}).get("properties", {})
        if "chosen" in fields:
            return json.dumps(given.pop(0) if len(given) > 1 else given[0])
        return "{}" if fields else None

    members = [fakes.member("lead", lead), *fakes.members("a b")]
    settings: dict[str, Any] = {"steps": STEPS, "answer": "decision", "lead": "lead", **options}
    return fakes, Team("t", members=members, strategy=preset, options=settings)


@pytest.mark.parametrize("preset", ["plan", "dag", "expert", "collaborate", "live"])
async def test_a_debate_ends_with_a_decision_as_data(preset: str) -> None:
    fakes, team = debate(DECIDED, preset=preset)
    result, _ = await run(team)
    assert (result.status, result.data) == ("completed", DECIDED)
    last = fakes.last_turn("lead")
    assert any("b is done" in message.content for message in last.history)
    assert last.output_schema == decision_schema(["lead", "a", "b"])


async def test_a_decision_for_what_is_no_option_is_asked_for_again() -> None:
    _, team = debate({**DECIDED, "chosen": "straw"}, DECIDED, on_failure=ladder())
    result, events = await run(team)
    assert (result.status, result.data) == ("completed", DECIDED)
    assert [(one.rung, one.error) for one in facts(events, TeamStepFailed)] == [("retry", "invalid_output")]


async def test_a_lead_that_gives_no_decision_fails_and_says_why() -> None:
    _, team = debate({"text": "larch"}, on_failure=ladder(skip_step=False))
    result, _ = await run(team)
    assert result.status == "failed"
    assert result.failure is not None
    assert "it is no decision" in result.failure.message


def test_a_lead_that_works_on_a_step_does_not_decide() -> None:
    with pytest.raises(ManifestError, match="'lead' works on the step 'b', and no one decides on an own proposal"):
        debate(DECIDED, steps=[{"id": "a"}, {"id": "b", "agent": "lead"}])


async def test_a_lead_that_gave_itself_a_step_does_not_decide_either() -> None:
    fakes = FakeMembers()
    plan = {"steps": [{"id": "one", "agents": ["lead", "a"], "parallel": "competitive_parallel", "merge": "vote"}]}

    def lead(turn: Turn) -> str | None:
        fields: Any = (turn.output_schema or {}).get("properties", {})
        return json.dumps(DECIDED if "chosen" in fields else plan if "steps" in fields else {}) if fields else None

    members = [fakes.member("lead", lead), *fakes.members("a b")]
    team = Team("t", members=members, strategy="collaborate", options={"answer": "decision", "lead": "lead"})
    result, _ = await run(team)
    assert result.data != DECIDED
    assert result.status != "completed"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"chosen": "straw"}, "it chooses 'straw', which is none of its options"),
        ({"reasons": []}, "it gives no reasons"),
        ({"dissent": [{"member": "z", "says": "No."}]}, "'z', who is against it, is not of the team"),
    ],
)
def test_what_is_no_decision_is_named(changed: dict[str, object], why: str) -> None:
    found = decision_of(Reply.of("lead", json.dumps({**DECIDED, **changed})), ["lead", "a", "b"])
    assert isinstance(found, ParseFailure)
    assert why in found.problem


async def test_no_member_of_a_pool_decides_in_place_of_the_lead() -> None:
    rungs = ladder(attempt="other_member")
    fakes, team = debate({**DECIDED, "chosen": "straw"}, DECIDED, pool=True, on_failure=rungs)
    result, _ = await run(team)
    assert (result.status, result.data) == ("completed", DECIDED)
    assert fakes.calls[-2:] == ["lead", "lead"]
