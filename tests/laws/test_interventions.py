"""Whatever people send to a run: each intervention is answered for, and a crash changes nothing.

Interventions are drawn at random and wait in the inbox when the run starts. The run is cut at the end of any of its
writes, and resumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from functools import partial

import anyio
import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright.agents.agent import Agent, AppliedChange, Branch, Context
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.runtime.engine import Engine
from teamwright.strategies.protocol import STEERABLE, Members, Strategy, Task
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunApplied, RunIntervened, RunRefused
from teamwright.values.limits import Limits
from teamwright.values.people import (
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    RestorePlan,
    ResumeMember,
    Steer,
    StopStep,
    Tell,
)
from teamwright.values.turns.results import Outcome, RunResult
from teamwright.values.turns.turn import Failure, Reply, Turn
from tests.kit.members import FakeMembers
from tests.kit.records import cut

NAMES = st.sampled_from(["a", "b", "c", "inner", "stranger"])
SENT = st.lists(
    st.builds(Tell, text=st.sampled_from(["Be brief.", "Hurry."]), to=st.one_of(st.just(""), NAMES))
    | st.builds(PauseMember, member=NAMES)
    | st.builds(ResumeMember, member=NAMES)
    | st.builds(RaiseBudget, calls=st.integers(1, 90))
    | st.builds(StopStep, step=NAMES)
    | st.builds(RestorePlan, plan_version=st.integers(1, 3))
    | st.builds(RemoveMember, member=NAMES),
    max_size=6,
)
STRATEGIES: dict[str, dict[str, JsonValue]] = {
    "sequential": {},
    "round_robin": {},
    "fan_out": {"chunks": ["one", "two", "three"], "max_parallel": 2},
}
MOST_PAUSES = 12


class BatchJournal(MemoryJournal):
    """A journal that knows where its writes end, which is where a crash can cut a record."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[int] = []

    def append(self, batch: Batch, done: Committed) -> None:
        """Append a batch."""
        self.ends.append(batch.events[-1].number)
        super().append(batch, done)


def team(strategy: str, members: FakeMembers) -> Team:
    inner = Team("inner", members=members.members("b c"))
    limit = {"max_turns": 2} if strategy == "round_robin" else {}
    return Team(
        "t",
        members=[members.member("a"), inner],
        strategy=strategy,
        options=STRATEGIES[strategy],
        limits=Limits(calls=60),
        **limit,  # type: ignore[arg-type]
    )


async def finish(engine: Engine, made: Team, result: RunResult) -> RunResult:
    """Resume every member that is paused, until the run ends."""
    for _ in range(MOST_PAUSES):
        if result.status != "paused":
            break
        for key in (await engine.runs.history("r")).questions():
            await engine.runs.answer("r", key, "resume")
        result = await engine.resume("r", team=made)
    return result


def check(events: list[Event], sent: list[Steer]) -> None:
    """Check that each intervention was answered for, once."""
    assert check_answers(events) == set(range(1, len(sent) + 1))


def check_answers(events: list[Event]) -> set[int]:
    """Check that interventions were accepted or refused once, and what was accepted took effect or never will.

    Returns the letters of those that were answered for.
    """
    assert [event.kind for event in events].count("run.ended") == 1
    assert events[-1].kind == "run.ended"
    accepted = [event.fact.inbox_id for event in events if isinstance(event.fact, RunIntervened)]
    applied = {event.fact.inbox_id for event in events if isinstance(event.fact, RunApplied)}
    refused = [event.fact.inbox_id for event in events if isinstance(event.fact, RunRefused)]
    assert max(Counter(accepted).values(), default=1) == max(Counter(refused).values(), default=1) == 1
    assert set(accepted) <= applied | set(refused)
    assert not applied & set(refused)
    assert applied <= set(accepted)
    return set(accepted) | set(refused)


@given(st.sampled_from(sorted(STRATEGIES)), SENT, st.integers(0, 1000))
async def test_each_intervention_is_answered_for_wherever_the_run_is_cut(
    strategy: str, sent: list[Steer], where: int
) -> None:
    journal, made = BatchJournal(), team(strategy, FakeMembers())
    for one in sent:
        await journal.send("r", one)
    with anyio.fail_after(20):
        async with Engine(journal, seed=lambda: 1) as engine:
            result = await finish(engine, made, await engine.run(made, "go", run_id="r"))
        check(await journal.read("r"), sent)
        assert result.status == "completed"
        copy = await cut(journal, journal.ends[where % len(journal.ends)])
        async with Engine(copy) as engine:
            if (await copy.read("r"))[-1].kind != "run.ended":
                again = await finish(engine, made, await engine.resume("r", team=made))
                assert (again.output, again.messages) == (result.output, result.messages)
        check(await copy.read("r"), sent)


class EditedStrategy(Strategy):
    """Members side by side, each by the plan as it is before it is asked, which people may edit or not."""

    name, version = "edited", 1
    interventions = (*STEERABLE, "edit_plan")

    def __init__(self, *, refuses: bool, each: bool) -> None:
        self._refuses, self._each = refuses, each

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask all, with what has happened before."""
        talk, edits, begun = TeamConversation(task), list[str](), list[str]()

        def apply(change: AppliedChange) -> str | None:
            if self._refuses:
                return "it stays as it is"
            edits.append("edited")
            return None

        async def work(member: Agent, note: str, inner: Context) -> Reply | Failure:
            if self._each:
                await ctx.changes(before=f"{member.name}/answer", apply=apply)
            begun.append(member.name)
            return await inner.ask(member, Turn(f"{note} {edits} {begun[:1]}"), key="answer")

        async with ctx.branches(8) as branches:
            started: list[Branch[Reply | Failure]] = []
            for member in members:
                if not self._each:
                    await ctx.changes(before=f"{member.name}/answer", apply=apply)
                started.append(branches.start(member.name, partial(work, member, str(begun))))
        for branch in started:
            reply = branch.result()
            assert isinstance(reply, Reply)
            talk.add(reply)
        return talk.ended("done")


async def resumed_everywhere(journal: MemoryJournal, team: Team, *sent: Steer) -> AsyncGenerator[RunResult]:
    """Cut a record after each of its events, send something more, and yield what becomes of the run."""
    for number in range(2, len(await journal.read("r"))):
        copy = await cut(journal, number)
        for one in sent:
            await copy.send("r", one)
        async with Engine(copy, seed=lambda: 1) as engine:
            yield await engine.resume("r", team=team)


@pytest.mark.parametrize("refuses", [True, False])
@pytest.mark.parametrize("each", [True, False])
async def test_a_replay_waits_for_branches_where_the_run_has_waited(refuses: bool, each: bool) -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    members = [fakes.member(name, lambda turn: turn.task) for name in "abc"]
    team = Team("t", members=members, strategy=EditedStrategy(refuses=refuses, each=each))
    await journal.send("r", EditPlan(plan={"steps": []}))
    async with Engine(journal, seed=lambda: 1) as engine:
        result = await engine.run(team, "go", run_id="r")
    async for again in resumed_everywhere(journal, team):
        assert again.messages == result.messages


@pytest.mark.experts
@pytest.mark.parametrize(("preset", "on_failure"), [("live", "skip"), ("star_team", "collect"), ("dag", "skip")])
async def test_nothing_new_comes_before_what_a_step_without_a_trace_was_followed_by(
    preset: str, on_failure: str
) -> None:
    steps: list[JsonValue] = [
        {"id": "s0", "agent": "d", "task": "First."},
        {"id": "s1", "agent": "a", "task": "{{ outputs.s0 + 1 }}", "needs": ["s0"]},  # which can't be rendered
        {"id": "s2", "agent": "b", "task": "Second.", "needs": ["s0"]},
        {"id": "s3", "agent": "c", "task": "Last.", "needs": ["s1", "s2"]},
    ]
    journal, fakes = MemoryJournal(), FakeMembers()
    members = [fakes.member(name, lambda turn: "done") for name in "abcd"]
    team = Team("t", members=members, strategy=preset, options={"on_failure": on_failure, "steps": steps})
    async with Engine(journal, seed=lambda: 1) as engine:
        await engine.run(team, "go", run_id="r")
    edit = EditPlan(plan={"put": [{"id": "s1", "agent": "a", "task": "As edited.", "needs": ["s0"]}]})
    async for again in resumed_everywhere(journal, team, edit):
        assert again.status in ("completed", "degraded", "failed")
