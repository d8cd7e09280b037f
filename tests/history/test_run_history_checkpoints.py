"""Checkpoints: found in the record of a run, named by agents and people, and where forks begin."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from teamwright import Context, Engine, FunctionAgent, Limits, Reply, ScriptedAgent, Team, Turn
from teamwright.agents.scripted import Rule
from teamwright.errors import InvalidName, NotResumable, RunNotFound, UnknownName, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed, InboxItem
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import AgentCalled
from teamwright.values.events.run import RunCheckpoint
from teamwright.values.people import Cancel, Intervention, Mark, Pause, Question
from teamwright.values.usage_and_prices import Usage
from tests.kit.members import FakeMembers
from tests.kit.strategies import FunctionStrategy, outcome


async def costly(turn: Turn) -> Reply:
    return Reply.of("a", "said", usage=Usage(requests=1, input_tokens=3, usd=0.5))


async def naming(task: Task, members: Members, ctx: Context) -> Outcome:
    for number, member in enumerate(members, start=1):
        await ctx.ask(member, Turn(task.text), key=f"part-{number}")
        await ctx.emit(RunCheckpoint(name="half"))
    return outcome("end")


async def points(engine: Engine, run_id: str = "r") -> list[tuple[str, str, str, int]]:
    return [(one.name, one.how, one.after, one.total_tokens) for one in await engine.runs.checkpoints(run_id)]


async def test_every_turn_of_a_team_is_a_checkpoint_and_costs_no_event() -> None:  # P-09
    inner = Team("inner", members=[FunctionAgent("b", costly), FunctionAgent("c", costly)])
    team = Team("outer", members=[FunctionAgent("a", costly), inner])
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        assert await points(engine) == [
            ("start", "start", "the task was given", 0),
            ("step-1", "turn", "a replied", 3),
            ("step-2/step-1", "turn", "b replied", 6),
            ("step-2/step-2", "turn", "c replied", 9),
            ("step-2", "turn", "the team inner ended", 9),
        ]
        kinds = {event.kind for event in (await engine.runs.history("r")).events}
        found = await engine.runs.checkpoints("r")
    assert "run.checkpoint" not in kinds
    assert found[0].number == 1
    assert found[1].usd == 0.5
    assert [one.number for one in found] == sorted({one.number for one in found})


async def test_a_failure_is_a_checkpoint_and_a_turn_that_was_stopped_is_none() -> None:  # P-09
    async def broken(turn: Turn) -> str:
        raise ValueError("broken")

    async def slow(turn: Turn) -> str:
        await anyio.sleep(60)
        return "never"

    async def first_ends(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            for member in members:
                branches.start(member.name, lambda inner, member=member: inner.ask(member, Turn("x"), key="k"))
            async for _ in branches.finished():
                branches.cancel()
        return outcome("end")

    team = Team(
        "t", members=[FunctionAgent("a", broken), FunctionAgent("b", slow)], strategy=FunctionStrategy(first_ends)
    )
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        assert await points(engine) == [
            ("start", "start", "the task was given", 0), ("a/k", "turn", "a failed (error)", 0)
        ]  # fmt: skip


async def test_a_fork_restores_any_checkpoint_as_a_new_run_and_pays_only_for_what_comes_after() -> None:  # P-09
    members = FakeMembers()
    team = Team("t", members=[members.member(name) for name in "abc"], strategy=FunctionStrategy(naming))
    async with Engine("memory") as engine:
        first = await engine.run(team, "go", run_id="r")
        known = await engine.runs.checkpoints("r")
        for point in known:
            members.received.clear()
            forked = await engine.fork("r", at=point, team=team, new_id=f"f{point.number}")
            had = len([one for one in known if one.how == "turn" and one.number <= point.number])
            assert (forked.messages, len(members.calls)) == (first.messages, 3 - had)
            origin = (await engine.runs.history(f"f{point.number}")).started.origin
            assert origin is not None
            assert (origin.run_id, origin.number, origin.checkpoint) == ("r", point.number, point.name)
        unchanged = await engine.runs.result("r")
    assert unchanged.messages == first.messages


@pytest.mark.parametrize(
    ("at", "asked"),
    [
        (1, "abc"), pytest.param("1", "abc", id="text"), ("start", "abc"), ("part-1", "bc"), ("part-2", "c"),
        ("half", ""), ("part-3", ""),
    ],
)  # fmt: skip
async def test_a_fork_begins_at_a_number_a_place_or_the_last_of_a_name(at: int | str, asked: str) -> None:  # P-09
    members = FakeMembers()
    team = Team("t", members=[members.member(name) for name in "abc"], strategy=FunctionStrategy(naming))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        members.received.clear()
        await engine.fork("r", at=at, team=team)
    assert "".join(members.calls) == asked


async def test_a_place_that_holds_several_turns_means_the_last_of_them() -> None:  # P-09
    members = FakeMembers()
    team = Team("t", members=[members.member(name) for name in "ab"], strategy="round_robin", max_turns=3)
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        members.received.clear()
        await engine.fork("r", at="round-2", team=team)
    assert members.calls == ["a", "b"]


@pytest.mark.parametrize("at", ["halv", "", "-1", "part-1/", "²"])
async def test_a_checkpoint_that_is_not_there_is_reported_with_the_nearest_names(at: str) -> None:
    team = Team("t", members=[FakeMembers().member("a")], strategy=FunctionStrategy(naming))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        with pytest.raises(UnknownName, match="There is no checkpoint"):
            await engine.fork("r", at=at, team=team)
        with pytest.raises(UsageError, match="has events 1 to"):
            await engine.fork("r", at="99", team=team)
        with pytest.raises(RunNotFound):
            await engine.runs.checkpoints("nobody")


async def test_an_agent_names_a_point_within_its_turn_once() -> None:  # P-09
    calls: list[str] = []

    async def working(turn: Turn, ctx: Context) -> str:
        await ctx.emit(RunCheckpoint(name="drafted"))
        calls.append("worked")
        if len(calls) == 1:
            await anyio.sleep(60)
        return "done"

    team = Team("t", members=[FunctionAgent("a", working)])
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        while not calls:
            await anyio.lowlevel.checkpoint()
        handle.interrupt()
        assert (await handle.result()).status == "interrupted"
        await engine.resume("r", team=team)
        found = [one for one in await engine.runs.checkpoints("r") if one.how == "named"]
        assert [(one.name, one.after) for one in found] == [("drafted", "a set it")]
        assert (await engine.fork("r", at="drafted", team=team)).output == "done"
    assert len(calls) == 3


async def paused(engine: Engine, run_id: str = "r") -> Team:
    async def asking(task: Task, members: Members, ctx: Context) -> Outcome:
        await ctx.ask(members[0], Turn(task.text), key="first")
        answer = await ctx.ask_person(Question(text="?"), key="q")
        return outcome(answer.text)

    team = Team("t", members=[FakeMembers().member("a")], strategy=FunctionStrategy(asking))
    await engine.run(team, "go", run_id=run_id)
    return team


async def test_a_pause_is_a_checkpoint() -> None:  # P-09
    async with Engine("memory") as engine:
        team = await paused(engine)
        assert (await points(engine))[-1] == ("pause-1", "pause", "the run paused (person)", 0)
        forked = await engine.fork("r", at="pause-1", team=team, new_id="f")
        assert forked.status == "paused"
        await engine.runs.answer("f", "t/q", "yes")
        assert (await engine.resume("f", team=team)).output == "yes"
        assert (await engine.runs.result("r")).status == "paused"


async def test_a_person_names_the_point_of_a_run_without_a_driver() -> None:  # P-09
    async with Engine("memory") as engine:
        team = await paused(engine)
        made = await engine.runs.checkpoint("r", "before-answer", by="Ada")
        assert (made.name, made.how, made.after) == ("before-answer", "named", "Ada set it")
        assert (await engine.runs.result("r")).status == "paused"
        assert await engine.runs.checkpoints("r") == [*(await engine.runs.checkpoints("r"))[:-1], made]
        await engine.runs.answer("r", "t/q", "yes")
        assert (await engine.resume("r", team=team)).output == "yes"
        fork = await engine.fork("r", at="before-answer", team=team, new_id="f")
        await engine.runs.answer(fork.run_id, "t/q", "no")
        assert (await engine.resume("f", team=team)).output == "no"


async def test_a_person_names_the_point_of_a_run_under_way_and_it_stays_named_once() -> None:  # P-09
    gate = anyio.Event()

    async def waiting(turn: Turn) -> str:
        await gate.wait()
        return "done"

    team = Team("t", members=[FakeMembers().member("a"), FunctionAgent("b", waiting)])
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await anyio.sleep(0.01)
        made = await engine.runs.checkpoint("r", "here")
        assert (made.name, made.after) == ("here", "a person set it")
        handle.interrupt()
        await handle.result()
        gate.set()
        await engine.resume("r", team=team)
        found = await engine.runs.checkpoints("r")
        assert [one.name for one in found] == ["start", "step-1", "here", "step-2"]
        assert (await engine.fork("r", at="here", team=team)).output == "done"


async def test_a_run_that_has_ended_takes_no_further_name() -> None:
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="r")
        with pytest.raises(NotResumable, match="runs steer r checkpoint"):
            await engine.runs.checkpoint("r", "late")


@pytest.mark.parametrize(("name", "error"), [("", InvalidName), ("a b", InvalidName), ("12", UsageError)])
async def test_an_ambiguous_name_is_refused(name: str, error: type[Exception]) -> None:
    async with Engine("memory") as engine:
        await paused(engine)
        with pytest.raises(error):
            await engine.runs.checkpoint("r", name)


class Late(MemoryJournal):
    """A journal in which something always comes for a run that has just written its end."""

    come: Callable[[], object]

    def append(self, batch: Batch, done: Committed) -> None:
        if batch.events[-1].kind in {"run.ended", "run.paused"}:
            self.come()
        super().append(batch, done)


@pytest.mark.parametrize("sent", [Mark(name="late"), Pause(), Cancel()], ids=lambda sent: sent.kind)
async def test_nothing_follows_the_end_of_a_run_however_late_an_intervention_is(sent: Intervention) -> None:
    journal = Late()
    async with Engine(journal) as engine:
        journal.come = lambda: [run.receive(InboxItem(1, run.run_id, sent)) for run in engine.driver.live]
        await engine.run(FakeMembers().chain(1), "go", run_id="r")
        events = (await engine.runs.history("r")).events
        assert events[-1].kind == "run.ended"
        team = await paused(engine, "p")
        assert (await engine.runs.history("p")).events[-1].kind == "run.paused"
        assert (await engine.resume("p", team=team)).status == "paused"


async def test_a_secret_is_no_name_of_a_point() -> None:
    async def leaking(turn: Turn, ctx: Context) -> str:
        await ctx.emit(RunCheckpoint(name="after-hunter2hunter2"))
        return "done"

    team = Team("t", members=[FunctionAgent("a", leaking)])
    team.secrets = frozenset({"hunter2hunter2"})
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        assert "hunter2" not in str(await engine.runs.checkpoints("r"))


async def test_a_call_under_way_at_a_checkpoint_is_none_of_the_fork_and_not_in_doubt() -> None:  # P-09
    team = Team("t", members=[ScriptedAgent("a", [Rule(reply="done", delay=0.2)])], limits=Limits(calls=1))
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await anyio.sleep(0.05)
        await engine.runs.checkpoint("r", "midway")
        assert (await handle.result()).status == "completed"
        forked = await engine.fork("r", at="midway", team=team, new_id="f")
        events = (await engine.runs.history("f")).events
    assert (forked.status, forked.usage.requests) == ("completed", 1)
    assert not [event for event in events if isinstance(event.fact, AgentCalled) and event.fact.in_doubt]


async def test_a_call_that_never_came_back_stays_in_doubt_in_a_fork() -> None:
    team = Team("t", members=[ScriptedAgent("a", [Rule(reply="done", delay=0.2)])])
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await anyio.sleep(0.05)
        handle.interrupt()
        await handle.result()
        await engine.fork("r", team=team, new_id="f")
        events = (await engine.runs.history("f")).events
    assert [event.fact.in_doubt for event in events if isinstance(event.fact, AgentCalled)] == [False, True]
