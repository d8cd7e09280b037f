"""A lead delegates the steps one by one to its worker."""

from __future__ import annotations

from typing import Any

import pytest

from teamwright.errors import ManifestError, Refused
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamMessageSent
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK, contents, run, speakers

STEPS: list[Any] = [{"id": "a", "task": "Do a."}, {"id": "b", "task": "Do b.", "needs": ["a"]}]


def team(fakes: FakeMembers, lead: object = None, worker: object = None, **more: Any) -> Team:
    members = [fakes.member("lead", lead), fakes.member("worker", worker), fakes.member("idle")]
    options = {"steps": STEPS, **more.pop("options", {})}
    return Team("t", members=members, strategy="lead", options=options, **more)


async def test_each_step_is_a_word_of_the_lead_and_a_result_back_and_the_lead_answers() -> None:  # Z-13
    fakes = FakeMembers()
    result, events = await run(team(fakes))
    assert (result.status, result.output) == ("completed", "lead is done")
    assert fakes.calls == ["lead", "worker", "lead", "worker", "lead"]
    assert [turn.purpose for _, turn in fakes.received] == ["coordinate", "work", "coordinate", "work", "coordinate"]
    assert speakers(result) == ["worker", "worker", "lead"]
    told = [
        (event.fact.by, event.fact.to, event.fact.round) for event in events if isinstance(event.fact, TeamMessageSent)
    ]
    assert told == [
        ("lead", ("worker",), 1),
        ("worker", ("lead",), 1),
        ("lead", ("worker",), 2),
        ("worker", ("lead",), 2),
    ]


async def test_they_share_envelopes_unless_the_team_says_otherwise() -> None:  # Z-13
    long = "It goes on. " * 60
    for share, expected in ((None, False), ("transcript", True)):
        fakes = FakeMembers()
        await run(team(fakes, long, long, share=share))
        whole = [long.strip() in turn.prompt for _, turn in fakes.received if turn.history]
        assert any(whole) == expected


async def test_the_worker_receives_the_leads_instructions_and_what_its_step_needs_and_no_more() -> None:
    fakes = FakeMembers()
    await run(team(fakes, lambda turn: f"word {turn.number}", "what came of it", share="transcript"))
    assert contents(fakes.last_turn("worker").history) == [TASK, "word 2", "what came of it"]
    assert contents(fakes.last_turn("lead").history) == ["word 1", "what came of it", "word 2", "what came of it"]
    assert fakes.last_turn("lead").task.endswith(TASK)


async def test_a_lead_that_fails_fails_the_team_and_one_that_is_optional_is_missed() -> None:
    fakes = FakeMembers()
    result, _ = await run(team(fakes, Refused("no")))
    assert (result.status, fakes.calls) == ("failed", ["lead"])
    fakes = FakeMembers()
    members = [fakes.member("lead", Refused("no"), optional=True), fakes.member("worker")]
    result, _ = await run(Team("t", members=members, strategy="lead_subagent", options={"steps": STEPS}))
    assert (result.status, result.output, len(result.warnings)) == ("degraded", "worker is done", 1)


async def test_a_step_that_is_skipped_is_not_handed_over() -> None:
    fakes = FakeMembers()

    def worker(turn: Turn) -> object:
        return Refused("no")

    result, _ = await run(team(fakes, None, worker))
    assert (result.status, fakes.calls) == ("failed", ["lead", "worker"])


def test_a_member_besides_the_lead_is_required() -> None:
    fakes = FakeMembers()
    with pytest.raises(ManifestError, match="needs a member besides 'one', who leads"):
        Team("t", members=[fakes.member("one")], strategy="lead_subagent", options={"steps": STEPS})
    with pytest.raises(ManifestError, match="pool: 'lead' leads, so others have to work"):
        team(fakes, options={"pool": ["lead"]})
