"""Two workers talk only when one is stopped by the other, only for so long, and then the lead rules."""

from __future__ import annotations

import json
from typing import Any

from teamwright.errors import Refused
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamChannelClosed, TeamChannelOpened, TeamEvaluationResult
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers
from tests.kit.runs import contents, run, speakers

STEPS: list[Any] = [
    {"id": "a", "agent": "x", "owns": ["wall"]},
    {"id": "b", "agent": "y", "needs": ["a"]},
    {"id": "c", "agent": "z", "needs": ["b"]},
]


def handing(text: str, status: str, *needs: str) -> str:
    note = json.dumps({"status": status, "summary": f"{text}, in short", "needs": needs})
    return f"{text}\n```envelope\n{note}\n```"


def ruling(decision: str, note: str = "mind the wall") -> str:
    return json.dumps({"decision": decision, "note": note})


def team(
    fakes: FakeMembers, *, blocked: object = None, ruled: object = None, peer: object = None, **options: Any
) -> Team:
    """y is stopped at b by what x did, until the lead says something about it."""

    def lead(turn: Turn) -> object:
        return ruled if "Decide what holds" in turn.task else "go on"

    def y(turn: Turn) -> object:
        if turn.purpose == "coordinate":
            return "what shall I do"
        return "b is done" if "mind the wall" in turn.prompt else blocked or handing("the wall leans", "blocked", "a")

    def x(turn: Turn) -> object:
        return peer if turn.purpose == "coordinate" else "a is done"

    members = [fakes.member("lead", lead), fakes.member("x", x), fakes.member("y", y), fakes.member("z")]
    return Team("t", members=members, strategy="star_team", options={"steps": STEPS, **options})


def channels(events: list[Event]) -> list[object]:
    return [event.fact for event in events if isinstance(event.fact, TeamChannelOpened | TeamChannelClosed)]


async def test_a_blocked_result_opens_a_channel_for_a_bounded_time_and_then_the_lead_rules() -> None:  # Z-13
    fakes = FakeMembers()
    result, events = await run(team(fakes, ruled=ruling("again"), peer="it always did"))
    assert result.status == "completed"
    assert channels(events) == [
        TeamChannelOpened(step="b", between=("y", "x"), reason="the wall leans, in short"),
        TeamChannelClosed(step="b", between=("y", "x"), messages=2, settled=False),
    ]
    assert fakes.calls == ["lead", "x", "lead", "y", "x", "y", "lead", "y", "lead", "z", "lead"]
    assert contents(result.messages)[:3] == ["a is done", "the wall leans", "b is done"]


async def test_a_step_that_is_done_again_is_reviewed_again() -> None:
    fakes = FakeMembers()
    review = {"criteria": [{"id": "leaning", "contains": "leans"}]}
    steps = [STEPS[0], {**STEPS[1], "evaluate": review}]
    result, events = await run(team(fakes, ruled=ruling("again"), steps=steps, timeout=60.0))
    verdicts = [event.fact.verdict.outcome for event in events if isinstance(event.fact, TeamEvaluationResult)]
    assert verdicts == ["pass", "revise", "revise", "revise"]
    assert "the wall leans" in contents(result.messages), "the result that passed stays"
    assert "b is done" not in contents(result.messages)


async def test_without_a_conflict_there_is_no_peer_round() -> None:  # Z-13
    for blocked in (
        "b is done",
        handing("b is done", "done", "a"),
        handing("it is not mine", "blocked", "nothing known"),
    ):
        fakes = FakeMembers()
        steps = [STEPS[0], {"id": "b", "agent": "y"}, STEPS[2]]
        _, events = await run(team(fakes, blocked=blocked, ruled=ruling("stands"), steps=steps))
        assert not channels(events)
        assert not [turn for _, turn in fakes.received if "You two may talk" in turn.task]


async def test_a_key_that_another_owns_is_a_conflict_too() -> None:
    fakes = FakeMembers()
    steps = [STEPS[0], {"id": "b", "agent": "y"}]
    blocked = handing("the wall leans", "blocked", "wall")
    _, events = await run(team(fakes, blocked=blocked, ruled=ruling("stands"), peer="yes", steps=steps, max_parallel=1))
    assert [fact.between for fact in channels(events)] == [("y", "x")] * 2  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_channel_closes_as_soon_as_one_says_that_it_is_settled() -> None:  # Z-13
    fakes = FakeMembers()
    _, events = await run(team(fakes, ruled=ruling("again"), peer=handing("I propped it up", "done"), rounds_of_talk=3))
    assert channels(events)[-1] == TeamChannelClosed(step="b", between=("y", "x"), messages=1, settled=True)


async def test_a_result_that_stands_continues_with_what_was_said_about_it() -> None:
    fakes = FakeMembers()
    result, _ = await run(team(fakes, ruled=ruling("stands"), peer="it always did"))
    assert fakes.calls.count("y") == 2
    assert speakers(result) == ["x", "y", "z", "lead"]
    assert "mind the wall" in fakes.last_turn("z").prompt
    assert "it always did" in fakes.last_turn("z").prompt


async def test_without_peer_talk_the_lead_rules_at_once() -> None:
    fakes = FakeMembers()
    _, events = await run(team(fakes, ruled=ruling("again"), rounds_of_talk=0))
    assert not channels(events)
    assert fakes.calls == ["lead", "x", "lead", "y", "lead", "y", "lead", "z", "lead"]


async def test_a_ruling_that_cannot_be_read_lets_the_result_stand_and_is_reported_in_short() -> None:
    fakes = FakeMembers()
    result, _ = await run(team(fakes, ruled=f"hm {'and so on ' * 60} at last", peer="it always did"))
    assert (result.status, fakes.calls.count("y")) == ("completed", 2)
    assert "hm and so on" in fakes.last_turn("z").prompt
    assert not fakes.any_received("at last")


async def test_talk_that_fails_is_a_warning_and_the_lead_still_rules() -> None:
    fakes = FakeMembers()
    result, events = await run(team(fakes, ruled=ruling("again"), peer=Refused("trouble")))
    assert (result.status, len(result.warnings)) == ("degraded", 1)
    assert channels(events)[-1] == TeamChannelClosed(step="b", between=("y", "x"), messages=0, settled=False)
    assert "b is done" in contents(result.messages)
    assert not fakes.any_received("trouble")


async def test_one_that_fails_when_it_works_again_leaves_its_first_result() -> None:
    fakes = FakeMembers()

    def y(turn: Turn) -> object:
        return Refused("no") if "mind the wall" in turn.prompt else handing("the wall leans", "blocked", "a")

    members = [
        fakes.member("lead", lambda turn: ruling("again") if "Decide what" in turn.task else "go on"),
        fakes.member("x"), fakes.member("y", y), fakes.member("z"),
    ]  # fmt: skip
    options: dict[str, Any] = {"steps": STEPS, "rounds_of_talk": 0}
    result, _ = await run(Team("t", members=members, strategy="star_team", options=options))
    assert (result.status, speakers(result)) == ("degraded", ["x", "y", "z", "lead"])
