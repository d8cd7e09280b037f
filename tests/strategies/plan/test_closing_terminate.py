"""`terminate` ends a turn, and never what has to be done or reviewed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.evaluators import words
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import RUN_ID, run

STATES: dict[str, dict[str, Any]] = {"without states": {}, "with states": {"timeout": 60}}
REVIEW = words(revisions=1).model_dump(mode="json", exclude_unset=True)
"""Work without the word `good` is revised."""


def ended_by(name: str) -> Reply:
    return Reply.of(name, "Enough.", signal="terminate")


def plan(fakes: FakeMembers, *steps: dict[str, Any], **options: Any) -> Team:
    members = [fakes.member("a", options.pop("a", ended_by("a"))), fakes.member("b", options.pop("b", None))]
    return Team("t", members=members, strategy="plan", options={"steps": list(steps), **options})


@pytest.mark.parametrize("kept", STATES.values(), ids=STATES)
async def test_a_required_step_that_was_never_reached_fails_the_team(kept: dict[str, Any]) -> None:
    fakes = FakeMembers()
    result, _ = await run(plan(fakes, {"id": "a"}, {"id": "b", "needs": ["a"], "required": True}, **kept))
    assert (result.status, result.stop_reason, fakes.calls) == ("failed", "error", ["a"])
    assert result.failure is not None
    assert "it is required, and 'a' ended the team before it had a result" in result.failure.message


@pytest.mark.parametrize("kept", STATES.values(), ids=STATES)
async def test_other_steps_need_not_be_reached(kept: dict[str, Any]) -> None:
    result, _ = await run(plan(FakeMembers(), {"id": "a"}, {"id": "b", "needs": ["a"]}, **kept))
    assert (result.status, result.stop_reason, result.warnings) == ("completed", "terminated", ())


@pytest.mark.parametrize("kept", STATES.values(), ids=STATES)
@pytest.mark.parametrize("required", [False, True])
async def test_a_review_that_was_cut_off_is_a_warning_and_a_required_one_fails_the_team(
    kept: dict[str, Any], required: bool
) -> None:
    revising, journal = asyncio.Event(), MemoryJournal()

    async def revise(turn: Turn) -> str:
        if "reviewed" not in turn.task:
            return "a draft"
        revising.set()
        await asyncio.Event().wait()
        return ""

    async def end(turn: Turn) -> Reply:
        await revising.wait()
        return ended_by("a")

    steps = {"id": "a"}, {"id": "b", "evaluate": REVIEW, "required": required}
    team = plan(FakeMembers(), *steps, a=end, b=revise, **kept)
    async with Engine(journal) as engine:
        result = await engine.run(team, "Go.", run_id=RUN_ID)
    if required:
        assert result.status == "failed"
    else:
        assert (result.status, result.stop_reason, result.output) == ("degraded", "done", "Enough.")
        assert any("the step 'b' was cut off before its review was over: 'a' ended" in one for one in result.warnings)
    for at in range(3, len(await journal.read(RUN_ID))):
        again, _ = await cut_and_resume(team, at, journal)
        assert again.status == result.status


async def test_a_lead_that_ends_its_team_while_it_plans_leaves_no_required_step_undone() -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", lambda turn: ended_by("lead") if turn.purpose == "coordinate" else None)
    members, steps = [lead, *fakes.members("a b")], list[Any]([{"id": "a"}, {"id": "b", "required": True}])
    result, _ = await run(Team("t", members=members, strategy="star_team", options={"steps": steps}))
    assert (result.status, result.stop_reason) == ("failed", "error")
