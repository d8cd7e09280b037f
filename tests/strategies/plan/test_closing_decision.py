"""Debates that end with a decision: options, the chosen one, reasons, and who is against it, as data of the result."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from teamwright.agents.agent import Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import InterventionRefused, ManifestError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.recorded.runs import Runs
from teamwright.strategies.plan.closing import decision_of, decision_schema
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamStepCompleted, TeamStepFailed
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.collaboration import facts
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.runs import RUN_ID, run
from tests.kit.steering import Gate, run_steered

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
    assert any("no one decides on an own proposal" in text for text in result.warnings)


async def never_ending(turn: Turn, ctx: Context) -> str:
    await ctx.ask_member("b", "Really?", key="q")
    return "I wait."


async def hand_over(turn: Turn, ctx: Context) -> str:
    if "can't take this step over" in turn.task:
        return "I did it."
    await ctx.ask_member("lead", "You do it.", key="q", hand_over=True)
    return "I hand it over."


CAPABLE: dict[str, Any] = {"capabilities": ("wood",)}
ASKED_TO_WORK: dict[str, tuple[Any, dict[str, Any]]] = {
    "a talk without an end": (never_ending, {"talk": "all"}),
    "a handover": (hand_over, {"talk": "all"}),
    "another member": (
        ValueError("no"),
        {
            "roles": {"w": {"capabilities": "wood"}},
            "steps": [{"id": "a", "role": "w"}],
            "on_failure": ["other_member"],
        },
    ),
    "a change of the step": (
        ValueError("no"),
        {"steps": [{"id": "a"}, {"id": "b"}], "on_failure": ["adjust", "skip_step"]},
    ),
}


@pytest.mark.parametrize(("a", "options"), ASKED_TO_WORK.values(), ids=ASKED_TO_WORK)
async def test_no_step_falls_to_the_lead_that_decides(a: Any, options: dict[str, Any]) -> None:
    fakes = FakeMembers()
    change = {"put": [{"id": "a", "role": "lead", "task": "I do it myself."}]}

    def lead(turn: Turn) -> str | None:
        fields: Any = (turn.output_schema or {}).get("properties", {})
        return json.dumps(DECIDED if "chosen" in fields else change) if fields else None

    doing = FunctionAgent("a", a, **CAPABLE) if callable(a) else fakes.member("a", a, **CAPABLE)
    members = [fakes.member("lead", lead, **CAPABLE), doing, fakes.member("b", **CAPABLE)]
    settings: dict[str, Any] = {"steps": STEPS, "answer": "decision", "lead": "lead", **options}
    result, events = await run(Team("t", members=members, strategy="plan", options=settings))
    assert result.data == DECIDED
    assert {one.member for one in facts(events, TeamStepCompleted) if one.step != "answer"} <= {"a", "b"}


def test_a_part_of_the_lead_is_work_too() -> None:
    parts = [{"id": "one", "agent": "a"}, {"id": "two", "agent": "lead"}]
    with pytest.raises(ManifestError, match="'lead' works on the step 'x', and no one decides on an own proposal"):
        debate(DECIDED, steps=[{"id": "x", "parallel": "subtask_parallel", "parts": parts}])


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda runs: runs.remove_member(RUN_ID, "lead"), "'lead' decides between what the others propose, and stays"),
        (
            lambda runs: runs.edit_plan(RUN_ID, {"put": [{"id": "b", "agent": "lead"}]}),
            "'lead' works on the step 'b', and no one decides on an own proposal; another member has to do it",
        ),
    ],
)
async def test_people_can_t_let_an_author_decide(act: Callable[[Runs], Awaitable[object]], why: str) -> None:
    gate, journal = Gate(), MemoryJournal()
    fakes, team = debate(DECIDED)
    team = Team(
        "t",
        members=[team.members[0], fakes.member("a", gate.answer), team.members[2]],
        strategy="collaborate",
        options={"steps": STEPS, "answer": "decision", "lead": "lead"},
    )

    async def refused(engine: Engine) -> None:
        with pytest.raises(InterventionRefused, match=re.escape(why)):
            await act(engine.runs)
        await engine.runs.remove_member(RUN_ID, "b")

    result, events = await run_steered(team, gate, refused, journal)
    assert (result.status, result.data) == ("completed", DECIDED)
    assert [one.member for one in facts(events, TeamStepCompleted)] == ["a", "a", "lead"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"chosen": "straw"}, "it chooses 'straw', which is none of its options"),
        ({"reasons": []}, "it gives no reasons"),
        ({"reasons": [" "]}, "it gives no reasons"),
        ({"options": ["", "steel"], "chosen": ""}, "it chooses nothing"),
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
