"""React: a lead decides on each step from what it has seen, bounded, under the rules of every expert team."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from teamwright.errors import ManifestError, Refused
from teamwright.experts.presets import React
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.strategies.protocol import Members, Settings, Strategy
from teamwright.teams.team import Team
from teamwright.testing.strategy import StrategyConformance
from teamwright.testing.trial import TASK as TRIAL
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunRefused
from teamwright.values.events.team import (
    TeamEnded,
    TeamLife,
    TeamPlanChanged,
    TeamReplyRejected,
    TeamRoleBound,
    TeamStepCompleted,
)
from teamwright.values.limits import Limits
from teamwright.values.people import AddMember, RemoveMember, Steer
from teamwright.values.turns.turn import Turn
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import RUN_ID, TASK, run, speakers

ANSWER: dict[str, Any] = {"action": "answer"}


def step(id_: str, role: str = "ana", **more: Any) -> dict[str, Any]:
    return {"id": id_, "role": role, "task": f"Do {id_}.", **more}


def work(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"action": "work", "steps": list(steps)}


def decides(*decisions: Any) -> Callable[[Turn], str]:
    left = list(decisions)
    return lambda turn: json.dumps(left.pop(0)) if turn.purpose == "coordinate" else "the answer"


def react(fakes: FakeMembers, lead: object, answers: dict[str, object] | None = None, **options: Any) -> Team:
    members = [fakes.member(name, (answers or {}).get(name)) for name in ("ana", "ben")]
    given: dict[str, Any] = {"lead": "lead", **options}
    return Team("t", members=members, helpers=[fakes.member("lead", lead)], strategy="react", options=given)


def told_back(events: list[Event]) -> list[str]:
    return [event.fact.problem for event in events if isinstance(event.fact, TeamReplyRejected)]


class TestReact(StrategyConformance):
    """The lead decides on two steps side by side, then on one that needs both, then answers."""

    settings = Settings(options={"lead": "lead"})

    def make(self) -> Strategy:
        return React()

    def lines(self, member: str, turn: Turn) -> str | None:
        if turn.purpose != "coordinate":
            return None
        one, two = {"id": "a", "role": "member-1", "task": TRIAL}, {"id": "b", "role": "member-2", "task": TRIAL}
        three = {"id": "c", "role": "member-3", "task": TRIAL}
        return json.dumps([work(one, two), work(three), ANSWER][min(turn.number, 3) - 1])


async def test_the_lead_sees_the_results_before_it_decides_on_the_next_step_and_answers_last() -> None:  # K-15
    fakes = FakeMembers()
    team = react(fakes, decides(work(step("look"), step("ask", "ben")), work(step("tell", needs=["look"])), ANSWER))
    result, events = await run(team)
    assert (result.status, result.output) == ("completed", "the answer")
    assert speakers(result) == ["ana", "ben", "ana", "lead"]
    second = next(turn for name, turn in fakes.received if name == "lead" and turn.number == 2)
    assert [message.content for message in second.history][-2:] == ["ana is done", "ben is done"]
    assert [message.name for message in fakes.last_turn("ana").history] == ["user", "look"]
    assert fakes.last_turn("lead").task.endswith(TASK)
    assert fakes.last_turn("lead").closing
    settled = [event.fact.step for event in events if isinstance(event.fact, TeamStepCompleted)]
    assert sorted(settled) == ["answer", "ask", "look", "tell"]


async def test_a_decision_that_can_not_be_used_is_sent_back_once_with_what_is_wrong() -> None:
    fakes = FakeMembers()
    result, events = await run(react(fakes, decides(ANSWER, work(step("look")), ANSWER)))
    assert result.status == "completed"
    assert told_back(events) == ["no step was done yet; decide on one"]
    first, later = (turn.output_schema for turn in (fakes.received[0][1], fakes.received[-2][1]))
    assert first is not None
    assert later is not None
    actions: list[Any] = [one["properties"] for one in (first, later)]
    assert [one["action"]["enum"] for one in actions] == [["work"], ["work", "answer"]]


async def test_an_answer_with_steps_before_any_is_done_means_the_steps() -> None:  # as small models decide
    fakes = FakeMembers()
    result, events = await run(react(fakes, decides({**work(step("look")), "action": "answer"}, ANSWER)))
    assert result.status == "completed"
    assert told_back(events) == []
    assert "no step was done yet, so its steps come before the answer" in str([event.to_json() for event in events])


@pytest.mark.parametrize(
    ("decision", "problem"),
    [
        (work(step("x", "poet")), "the role 'poet', which does not exist"),
        (work(step("answer")), "'answer' is the step in which the lead answers"),
        (work(), "it has no steps"),
        ({"action": "dance"}, "action"),
    ],
)
async def test_without_a_usable_decision_the_team_fails_in_planning(decision: dict[str, Any], problem: str) -> None:
    fakes = FakeMembers()
    result, events = await run(react(fakes, decides(decision, decision), max_steps=3))
    assert (result.status, result.stop_reason) == ("failed", "planning")
    assert problem in told_back(events)[0]
    assert fakes.calls == ["lead", "lead"]


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (work(step("x", needs=["later"])), "'x' needs 'later', which is no step, so the need was dropped"),
        (work(*(step(f"s{number}") for number in range(4))), "4 steps were planned, and at most 3 are allowed"),
    ],
)
async def test_a_decision_that_can_be_repaired_is_repaired_and_that_is_recorded(
    decision: dict[str, Any], said: str
) -> None:
    result, events = await run(react(FakeMembers(), decides(decision, ANSWER), max_steps=3))
    assert (result.status, result.output) == ("completed", "the answer")
    assert said in next(event.fact.reason for event in events if isinstance(event.fact, TeamPlanChanged))


async def test_a_step_that_was_done_needs_a_new_reason() -> None:
    again = step("again", task="do  LOOK.")
    result, events = await run(
        react(
            FakeMembers(), decides(work(step("look")), work(again), work({**again, "reason": "it has changed"}), ANSWER)
        )
    )
    assert (result.status, result.output) == ("completed", "the answer")
    assert told_back(events) == ["the step 'again' repeats an earlier one, which needs a new reason"]


async def test_a_lead_that_gives_the_same_reason_again_answers_from_what_there_is() -> None:
    one, other = step("a", task="Look.", reason="It may help."), step("b", task="Look.", reason="it may  help.")
    result, _ = await run(react(FakeMembers(), decides(work(one), work(other), work(other))))
    assert (result.status, result.output) == ("degraded", "the answer")
    assert "no usable decision" in result.warnings[0]


async def test_the_lead_is_bounded_by_the_number_of_steps() -> None:
    fakes = FakeMembers()
    steps = [work(step(f"s{number}")) for number in range(9)]
    result, _ = await run(react(fakes, decides(*steps), max_steps=3))
    assert (result.status, result.output) == ("completed", "the answer")
    assert fakes.calls.count("ana") == 3


async def test_a_lost_step_is_shown_without_its_error_and_the_ladder_decides_about_the_team() -> None:
    fakes = FakeMembers()
    wrong: dict[str, object] = {"ana": Refused("the words of an error")}
    result, _ = await run(react(fakes, decides(work(step("look")), work(step("ask", "ben")), ANSWER), wrong))
    assert (result.status, result.output) == ("degraded", "the answer")
    assert fakes.any_received("There is no result of this step.")
    assert not fakes.any_received("the words of an error")
    failing = react(FakeMembers(), decides(work(step("look"))), wrong, on_failure=ladder(skip_step=False))
    result, events = await run(failing)
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert [event.fact.status for event in events if isinstance(event.fact, TeamEnded)] == ["failed"]


async def test_steps_and_the_answer_are_evaluated_and_revised() -> None:
    fakes = FakeMembers()
    rubric = {"criteria": [{"id": "good", "contains": "good"}]}

    def revised(turn: Turn) -> str:
        return "good" if "Review 1" in turn.task else "bad"

    decide = decides(work(step("look")), ANSWER)
    lead = lambda turn: decide(turn) if turn.purpose == "coordinate" else revised(turn)  # noqa: E731
    result, _ = await run(react(fakes, lead, {"ana": revised}, evaluate=rubric))
    assert (result.status, result.output) == ("completed", "good")
    assert fakes.calls == ["lead", "ana", "ana", "lead", "lead", "lead"]


async def test_work_that_does_not_pass_fails_the_team_at_once() -> None:  # K-09
    fakes = FakeMembers()
    never = {"criteria": [{"id": "never", "contains": "no such text"}]}
    result, _ = await run(react(fakes, decides(work(step("look"))), evaluate=never, max_feedback_rounds=1))
    assert (result.status, result.stop_reason) == ("failed", "review_exceeded")
    assert fakes.calls == ["lead", "ana"]


async def test_the_time_of_the_team_ends_it_with_each_step_in_order() -> None:  # K-12
    async def never(turn: Turn) -> str:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    decisions = decides(work(step("ask", "ben")), work(step("look")))
    result, _ = await run(react(FakeMembers(), decisions, {"ana": never}, timeout=0.4))
    assert (result.status, result.stop_reason) == ("timeout", "deadline")
    assert isinstance(result.data, list)
    assert [one["state"] for one in result.data if isinstance(one, dict)] == ["completed", "timeout"]
    result, _ = await run(react(FakeMembers(), never, timeout=0.05))
    assert (result.status, result.stop_reason) == ("timeout", "deadline")


async def test_roles_are_made_at_run_time_where_that_is_allowed() -> None:  # K-15
    fakes = FakeMembers()
    new = step("check", "sceptic", instructions="You doubt everything.")
    result, events = await run(react(fakes, decides(work(new), ANSWER), create_roles=True))
    assert result.status == "completed"
    assert fakes.last_turn("ana").task == "You doubt everything.\n\nDo check."
    assert [event.fact.role for event in events if isinstance(event.fact, TeamRoleBound)] == ["sceptic"]
    result, events = await run(react(FakeMembers(), decides(work(new), work(new))))
    assert result.stop_reason == "planning"
    bare = step("check", "sceptic")
    result, events = await run(react(FakeMembers(), decides(work(bare), work(bare)), create_roles=True))
    assert "the new role 'sceptic', which needs instructions" in told_back(events)[0]


async def test_a_planner_makes_roles_at_run_time_where_that_is_allowed() -> None:  # K-15
    fakes = FakeMembers()
    plan = json.dumps({"steps": [step("check", "sceptic", instructions="You doubt everything.")]})
    options: dict[str, Any] = {"lead": "lead", "create_roles": True}
    helper = fakes.member("lead", plan)
    result, _ = await run(Team("t", members=fakes.members("ana"), helpers=[helper], strategy="expert", options=options))
    assert result.status == "completed"
    assert fakes.last_turn("ana").task == "You doubt everything.\n\nDo check."


@pytest.mark.parametrize(("calls", "output"), [(1, None), (2, "the answer"), (3, "the answer"), (4, "the answer")])
async def test_a_team_that_is_short_of_budget_answers_from_what_there_is(
    calls: int, output: str | None
) -> None:  # K-11
    fakes = FakeMembers()
    lead = fakes.member("lead", decides(work(step("look")), ANSWER))
    limits, options = Limits(calls=calls), {"lead": "lead"}
    team = Team("t", members=fakes.members("ana"), helpers=[lead], strategy="react", options=options, limits=limits)
    result, events = await run(team)
    assert (result.status, result.output) == ("completed" if calls == 4 else "degraded", output)
    assert result.stop_reason == ("done" if calls == 4 else "budget")
    assert [event.fact.status for event in events if isinstance(event.fact, TeamEnded)] == [result.status]


def test_the_answer_of_the_lead_is_declared_as_the_closing_ask_and_the_team_is_drawn() -> None:
    team = react(FakeMembers(), "")
    (closing,) = team.strategy.closing(team.settings, Members(team.members))
    assert closing.member == "lead"
    nodes = team.strategy.diagram(team.settings, Members(team.members)).nodes
    assert [node.label for node in nodes] == ["decide", "ana", "ben"]


def test_a_lead_needs_somebody_to_lead() -> None:
    lead = FakeMembers().member("lead")
    with pytest.raises(ManifestError, match="needs a member besides 'lead'"):
        Team("t", members=[lead], strategy="react", options={"lead": "lead"})


def newcomer(task: str) -> str:
    """Answer as an expert who joins."""
    return "new is here"


JOIN = AddMember(member="new", spec={"function": f"{__name__}:newcomer"})


def leave(name: str) -> RemoveMember:
    return RemoveMember(member=name)


def by_number(*decisions: Any) -> Callable[[Turn], str]:
    """Decide by the number of the turn, so that a resumed run decides alike."""
    return lambda turn: json.dumps(decisions[turn.number - 1]) if turn.purpose == "coordinate" else "the answer"


async def steered(team: Team, journal: MemoryJournal, *sent: Steer) -> list[Event]:
    for one in sent:
        await journal.send(RUN_ID, one)
    async with Engine(journal) as engine:
        await engine.run(team, TASK, run_id=RUN_ID)
    return list(await journal.read(RUN_ID))


async def test_the_lead_can_use_an_expert_who_joins_and_no_more_one_who_leaves() -> None:
    def team(fakes: FakeMembers) -> Team:
        return react(fakes, by_number(work(step("look", "ben"), step("new", "new")), ANSWER))

    fakes, journal = FakeMembers(), MemoryJournal()
    events = await steered(team(fakes), journal, JOIN, leave("ana"))
    assert "- new" in fakes.received[0][1].task
    assert "- ana" not in fakes.received[0][1].task
    (life,) = [event.fact for event in events if isinstance(event.fact, TeamLife) and event.fact.reason]
    assert (life.lead, life.members, life.left) == ("lead", ("ben", "new"), ("ana",))
    assert [one["member"] for one in settled(events)] == ["ben", "new", "lead"]
    for at in range(2, len(events)):
        again, _ = await cut_and_resume(team(FakeMembers()), at, journal)
        assert [message.content for message in again.messages] == ["ben is done", "new is here", "the answer"]


def settled(events: list[Event]) -> list[Any]:
    facts = [event.fact.to_json() for event in events if isinstance(event.fact, TeamStepCompleted)]
    return sorted(facts, key=lambda one: ["look", "new", "answer"].index(str(one["step"])))


async def test_an_expert_whom_the_team_can_not_spare_stays_and_the_reason_is_said() -> None:
    roles = {"scout": {"agent": "ana"}}
    rubric = {"judge": "ben", "criteria": [{"id": "ok", "judge": "Is it good?"}]}
    fakes = FakeMembers()
    team = react(fakes, by_number(work(step("look", "scout")), ANSWER), roles=roles, evaluate=rubric, risk="low")
    events = await steered(team, MemoryJournal(), leave("lead"), leave("ana"), leave("ben"))
    assert [event.fact.reason for event in events if isinstance(event.fact, RunRefused)] == [
        "'lead' is no member of the team: it leads, judges or helps, and stays",
        "no other member can have the role 'scout'",
        "'ben' judges the work of the team, and stays",
    ]
