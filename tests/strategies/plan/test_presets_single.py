"""One member works through a plan in one conversation."""

from __future__ import annotations

from typing import Any

import pytest

from teamwright.errors import ManifestError, Refused
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamPlanned
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK, contents, run, speakers

STEPS: list[Any] = [
    {"id": "last", "needs": ["b", "a"]},
    {"id": "b", "task": "Do b.", "priority": 5},
    {"id": "a", "task": "Do a.", "agent": "other"},
]


def team(fakes: FakeMembers, answer: object = None, steps: list[Any] = STEPS, **options: Any) -> Team:
    members = [fakes.member("one", answer), fakes.member("other")]
    return Team("t", members=members, strategy="single", options={"steps": steps, **options})


async def test_one_member_works_on_all_steps_in_topological_order_without_coordination() -> None:  # Z-13
    fakes = FakeMembers()
    result, events = await run(team(fakes))
    assert result.status == "completed"
    assert speakers(result) == ["one"] * 3
    assert [event.key for event in events if event.kind == "agent.asked"] == [
        "t",
        "t/a/work",
        "t/b/work",
        "t/last/work",
    ]
    assert {turn.purpose for turn in fakes.turns} == {"work"}
    planned = next(event.fact for event in events if isinstance(event.fact, TeamPlanned))
    assert planned == TeamPlanned(topology="single", steps=3, rounds=3, width=1, workers=("one",))


async def test_what_was_asked_and_answered_before_stands_above_each_step() -> None:
    fakes = FakeMembers()
    await run(team(fakes, lambda turn: f"done {turn.task}"))
    assert [(contents(turn.history), turn.task) for turn in fakes.turns] == [
        ([TASK], "Do a."),
        ([TASK, "Do a.", "done Do a."], "Do b."),
        ([TASK, "Do a.", "done Do a.", "Do b.", "done Do b."], TASK),
    ]


async def test_another_member_may_be_the_one() -> None:
    fakes = FakeMembers()
    result, _ = await run(team(fakes, pool=["other"]))
    assert set(speakers(result)) == {"other"}


async def test_a_failed_step_leaves_no_message_and_its_dependents_are_skipped() -> None:
    fakes = FakeMembers()

    def answer(turn: Turn) -> object:
        return Refused("no") if turn.task == "Do a." else None

    result, _ = await run(team(fakes, answer, on_failure="fail"))
    assert (result.status, len(result.messages)) == ("failed", 1)
    assert not any("Do a." in contents(turn.history) for turn in fakes.turns)


def test_steps_that_make_no_plan_are_refused_at_their_place() -> None:
    with pytest.raises(ManifestError, match="circle") as error:
        team(
            FakeMembers(), steps=[{"id": "a", "needs": ["b"]}, {"id": "b", "needs": ["a"]}, {"id": "c", "when": "x +"}]
        )
    assert len(error.value.problems) == 2
