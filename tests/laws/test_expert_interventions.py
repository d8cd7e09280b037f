"""Whatever people change in an expert team while its members fail: it ends once, as its last answer says.

Plans, members, messages, pauses and budgets change at random, before the run starts or in the middle of it, and members
fail at random. Each intervention is answered for, the budget holds, and a run that is cut resumes to the same end.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import Refused
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunApplied
from teamwright.values.events.team import TeamEnded
from teamwright.values.limits import Limits
from teamwright.values.people import (
    AddMember,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    RestorePlan,
    Steer,
    StopStep,
    Tell,
)
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.records import cut
from tests.laws.test_interventions import BatchJournal, check, check_answers, finish

pytestmark = pytest.mark.experts

MEMBERS = ("lead", "a", "b", "c")
NAMES = st.sampled_from([*MEMBERS, "new", "stranger"])
ENDINGS = {
    ("completed", "done"),
    ("degraded", "done"),
    ("degraded", "budget"),
    ("failed", "error"),
    ("failed", "budget"),
    ("failed", "planning"),
}
"""The endings of a team that is not stopped; see the contract of statuses and stop reasons."""


def joined(task: str) -> str:
    """Answer as the expert who joins."""
    return "new is done"


NEWCOMER: JsonValue = {"function": f"{__name__}:joined"}
phases = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from(["one", "two", "three", "four"]), "agent": NAMES},
        optional={"needs": st.lists(st.sampled_from(["one", "two", "three"]), max_size=1), "task": st.just("Again.")},
    ),
    min_size=1,
    max_size=4,
)
SENT = st.lists(
    st.builds(Tell, text=st.just("Be brief."), to=st.just("") | NAMES)
    | st.builds(PauseMember, member=NAMES)
    | st.builds(RaiseBudget, calls=st.integers(1, 90))
    | st.builds(EditPlan, plan=phases.map(lambda steps: {"steps": steps}))
    | st.builds(RestorePlan, plan_version=st.integers(1, 4))
    | st.builds(StopStep, step=st.sampled_from(["one", "two", "three", "four", "step-1", "step-2"]))
    | st.builds(AddMember, member=st.sampled_from(["new", "a"]), spec=st.just(NEWCOMER))
    | st.builds(RemoveMember, member=NAMES),
    max_size=5,
)
STEPS: list[JsonValue] = [
    {"id": "one", "agent": "a"},
    {"id": "two", "agent": "b", "needs": ["one"]},
    {"id": "three", "agent": "c", "needs": ["two"]},
]
OPTIONS: dict[str, dict[str, JsonValue]] = {
    "live": {"steps": STEPS},
    "collaborate": {"steps": STEPS, "lead": "lead", "proposals": 0},
    "react": {"lead": "lead", "max_steps": 4, "on_failure": {"retry": 1}},
}
Failing = dict[str, set[int]]
"""The asks of each member, by the number of its turn, at which it fails."""
failures = st.fixed_dictionaries({}, optional=dict.fromkeys(MEMBERS, st.sets(st.integers(0, 4), max_size=3)))


async def nothing() -> None:
    """Do nothing while a member works."""


def team(strategy: str, failing: Failing, limits: Limits, meanwhile: Callable[[], Awaitable[None]] = nothing) -> Team:
    """A team whose members answer by what they are asked, and fail as the test says."""

    def member(name: str) -> Agent:
        async def respond(turn: Turn) -> str:
            await meanwhile()
            if turn.number in failing.get(name, ()):
                raise Refused("no")
            return _answer(name, turn)

        return FunctionAgent(name, respond)

    return Team(
        "t", members=[member(one) for one in MEMBERS], strategy=strategy, options=OPTIONS[strategy], limits=limits
    )


def _answer(name: str, turn: Turn) -> str:
    fields: Any = (turn.output_schema or {}).get("properties", {})
    if "action" in fields:
        role = fields["steps"]["items"]["properties"]["role"]["enum"][-turn.number % 2]
        step = {"id": f"step-{turn.number}", "role": role, "task": "Work."}
        return json.dumps({"action": "answer"} if turn.number > 3 else {"action": "work", "steps": [step]})
    return "{}" if fields else f"{name} is done"


def check_ending(result: RunResult, events: list[Event], least: int) -> None:
    """Check that the team ended once and as its result says, within a budget that people may have raised."""
    (ending,) = [event.fact for event in events if isinstance(event.fact, TeamEnded)]
    assert (ending.status or result.status, ending.stop_reason) == (result.status, result.stop_reason)
    assert (result.status, result.stop_reason) in ENDINGS
    assert (result.status == "degraded") == (bool(result.warnings) and result.status != "failed")
    steers = [event.fact.intervention for event in events if isinstance(event.fact, RunApplied)]
    raised = [one.calls for one in steers if isinstance(one, RaiseBudget) and one.calls is not None]
    assert sum(event.kind == "agent.called" for event in events) <= max([least, *raised])


@given(st.sampled_from(sorted(OPTIONS)), SENT, failures, st.integers(2, 30), st.integers(0, 1000))
async def test_a_team_that_people_change_ends_once_as_its_last_answer_says_and_resumes(
    strategy: str, sent: list[Steer], failing: Failing, calls: int, where: int
) -> None:  # A-13, K-09
    journal = BatchJournal()
    made = team(strategy, failing, Limits(calls=calls))
    for one in sent:
        await journal.send("r", one)
    with anyio.fail_after(20):
        async with Engine(journal, seed=lambda: 1) as engine:
            result = await finish(engine, made, await engine.run(made, "go", run_id="r"))
        events = await journal.read("r")
        check(events, sent)
        check_ending(result, events, calls)
        copy = await cut(journal, journal.ends[where % len(journal.ends)])
        async with Engine(copy) as engine:
            if (await copy.read("r"))[-1].kind != "run.ended":
                again = await finish(engine, made, await engine.resume("r", team=made))
                if "budget" not in (result.stop_reason, again.stop_reason):  # a call that broke off stays charged
                    assert (again.status, again.messages) == (result.status, result.messages)
        check(await copy.read("r"), sent)


@given(st.sampled_from(sorted(OPTIONS)), SENT, failures, st.integers(2, 30))
async def test_a_team_that_people_change_while_it_works_ends_once_as_its_last_answer_says(
    strategy: str, sent: list[Steer], failing: Failing, calls: int
) -> None:  # A-13, K-09
    journal, left = BatchJournal(), list(sent)

    async def send_one() -> None:
        if left:
            await journal.send("r", left.pop(0))

    made = team(strategy, failing, Limits(calls=calls), send_one)
    with anyio.fail_after(20):
        async with Engine(journal, seed=lambda: 1) as engine:
            result = await finish(engine, made, await engine.run(made, "go", run_id="r"))
        events = await journal.read("r")
    assert len(check_answers(events)) <= len(sent) - len(left)  # the last may come when the run has ended
    check_ending(result, events, calls)
