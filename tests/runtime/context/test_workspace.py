"""The workspace: what members share, with versions, as of a point of the record that a replay repeats."""

from __future__ import annotations

import random

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Message, Reply, RunResult, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.errors import AgentError, ArtifactNotFound, StaleWrite
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import WorkspaceConflicted, WorkspaceKept, WorkspaceWritten
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunLogged, RunMeasured
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.turn import Failure
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome


async def run(
    *members: Agent, strategy: FunctionStrategy | None = None
) -> tuple[RunResult, list[Event], MemoryJournal]:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(Team("t", members=members, strategy=strategy or "sequential"), "the task", run_id="r")
    return result, await journal.read("r"), journal


async def test_what_one_member_writes_the_next_one_reads() -> None:  # P-08
    async def write(turn: Turn, ctx: Context) -> str:
        assert await ctx.workspace.put("plan", ["one", "two"]) == 1
        return "written"

    async def read(turn: Turn, ctx: Context) -> str:
        held = ctx.workspace.get("plan")
        assert held is not None
        return f"{held.value} by {held.by} at {held.version}, of {ctx.workspace.names()}; {ctx.workspace.task}"

    result, events, _ = await run(FunctionAgent("writer", write), FunctionAgent("reader", read))
    assert result.output == "['one', 'two'] by writer at 1, of ['plan']; the task"
    assert [event.fact.name for event in events if isinstance(event.fact, WorkspaceWritten)] == ["plan"]


async def test_a_write_on_a_stale_version_is_refused_and_recorded() -> None:  # P-08
    async def write(turn: Turn, ctx: Context) -> str:
        await ctx.workspace.put("n", 1, version=0)
        with pytest.raises(StaleWrite, match="is at version 1, written by 'a'") as stale:
            await ctx.workspace.put("n", 2, version=0)
        assert (stale.value.version, stale.value.by) == (1, "a")
        assert await ctx.workspace.put("n", 2, version=1) == 2
        return "done"

    result, events, _ = await run(FunctionAgent("a", write))
    assert result.status == "completed"
    (conflict,) = [event.fact for event in events if isinstance(event.fact, WorkspaceConflicted)]
    assert (conflict.name, conflict.based_on, conflict.revision) == ("n", 0, 1)


async def test_updates_of_a_reply_are_merged_and_results_are_found_by_key() -> None:  # P-08
    def first(turn: Turn) -> Reply:
        return Reply(messages=(Message(name="a", content="said"),), context_updates={"mood": "good"})

    async def second(turn: Turn, ctx: Context) -> str:
        held, before = ctx.workspace.get("mood"), ctx.workspace.result("step-1")
        assert held is not None
        assert isinstance(before, Reply)
        assert ctx.workspace.result("step-2") is None
        return f"{held.value} after {before.text}"

    async def a(turn: Turn, ctx: Context) -> Reply:
        return first(turn)

    result, _, _ = await run(FunctionAgent("a", a), FunctionAgent("b", second))
    assert result.output == "good after said"


async def test_an_update_that_others_overtook_is_a_visible_conflict() -> None:  # P-08
    both = anyio.Event()
    begun: list[str] = []

    def updating(name: str) -> FunctionAgent:
        async def respond(turn: Turn, ctx: Context) -> Reply:
            begun.append(name)
            if len(begun) == 2:
                both.set()
            await both.wait()
            return Reply(messages=(Message(name=name, content=name),), context_updates={"best": name})

        return FunctionAgent(name, respond)

    async def together(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            started = [
                branches.start(one.name, lambda inner, one=one: inner.ask(one, Turn("x"), key="k")) for one in members
            ]
        replies = [branch.result() for branch in started]
        held = ctx.workspace.get("best")
        assert held is not None
        return Outcome(
            messages=(Message(name="t", content=f"{held.value} {held.version}"),),
            warnings=tuple(text for reply in replies if isinstance(reply, Reply) for text in reply.warnings),
        )

    result, events, _ = await run(updating("a"), updating("b"), strategy=FunctionStrategy(together))
    winner, loser = [e.fact for e in events if isinstance(e.fact, WorkspaceWritten | WorkspaceConflicted)]
    assert isinstance(winner, WorkspaceWritten)
    assert isinstance(loser, WorkspaceConflicted)
    assert result.output == f"{winner.by} 1"
    assert result.status == "degraded"
    assert "was not taken over" in result.warnings[0]


async def compete(task: Task, members: Members, ctx: Context) -> Outcome:
    """Every branch adds its member to a list until its write is not stale; the order is that of arrival."""

    async def add(inner: Context, member: Agent) -> None:
        await inner.ask(member, Turn("x"), key="k")
        while True:
            held = inner.workspace.get("order")
            before = held.value if held else []
            assert isinstance(before, list)
            try:
                await inner.workspace.put("order", [*before, member.name], version=held.version if held else 0)
            except StaleWrite:
                continue
            return

    async with ctx.branches(len(members)) as branches:
        for member in members:
            branches.start(member.name, lambda inner, member=member: add(inner, member))
    held = ctx.workspace.get("order")
    return outcome(str(held.value if held else None))


async def test_compare_and_set_falls_the_same_way_after_a_crash_anywhere() -> None:  # law 2
    chance = random.Random(7)

    def slow(name: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            await anyio.sleep(chance.random() / 200)
            return name

        return FunctionAgent(name, respond)

    members = [slow(f"m{n}") for n in range(4)]
    result, events, journal = await run(*members, strategy=FunctionStrategy(compete))
    team = Team("t", members=[slow(f"m{n}") for n in range(4)], strategy=FunctionStrategy(compete))
    came = [event.key for event in events if event.kind == "agent.replied"]
    for at in range(1, len(events)):
        again, _ = await cut_and_resume(team, at, journal)
        recorded = [event.key for event in events[:at] if event.kind == "agent.replied"]
        if len(recorded) == len(came):
            assert again.output == result.output, f"cut after event {at}"
        assert sorted(eval(again.output or "")) == ["m0", "m1", "m2", "m3"]  # noqa: S307 - a list of our own


async def test_an_agent_sees_its_own_writes_and_what_there_was_when_its_turn_began() -> None:
    seen: list[object] = []

    async def look(turn: Turn, ctx: Context) -> str:
        seen.append(ctx.workspace.get("x"))
        await ctx.workspace.put("x", "mine")
        held = ctx.workspace.get("x")
        seen.append(held.value if held else None)
        return "ok"

    await run(FunctionAgent("a", look))
    assert seen == [None, "mine"]


async def test_artifacts_are_stored_once_and_opened_by_their_pointer() -> None:  # P-08
    async def keep(turn: Turn, ctx: Context) -> Reply:
        one = await ctx.workspace.keep("a long report", name="report")
        same = await ctx.workspace.keep("a long report")
        raw = await ctx.workspace.keep(b"\x00\xff", media_type="image/png")
        assert one.hash == same.hash != raw.hash
        assert (raw.media_type, raw.size) == ("image/png", 2)
        return Reply(messages=(Message(name="a", content=f"{one.hash} {raw.hash}"),), artifacts=(one,))

    async def read(turn: Turn, ctx: Context) -> str:
        text, raw = [await ctx.workspace.open(one) for one in turn.history[-1].content.split()]
        return f"{text} {raw!r}"

    result, events, _ = await run(FunctionAgent("a", keep), FunctionAgent("b", read))
    assert result.output == r"a long report b'\x00\xff'"
    assert [e.fact.artifact.name for e in events if isinstance(e.fact, WorkspaceKept)] == [
        "report", "artifact-2", "artifact-3",
    ]  # fmt: skip


async def test_artifacts_belong_to_their_run_and_its_forks() -> None:  # M-07
    opened: list[str] = []

    async def keep(turn: Turn, ctx: Context) -> Reply:
        kept = await ctx.workspace.keep("a long report", name="report")
        return Reply(messages=(Message(name="a", content=kept.pointer),), artifacts=(kept,))

    async def read(turn: Turn, ctx: Context) -> str:
        try:
            opened.append(str(await ctx.workspace.open(turn.task)))
        except ArtifactNotFound as error:
            opened.append(error.kind)
        return "ok"

    _, events, journal = await run(FunctionAgent("a", keep), FunctionAgent("b", read))
    (kept,) = [e for e in events if isinstance(e.fact, WorkspaceKept)]
    assert isinstance(kept.fact, WorkspaceKept)
    pointer = kept.fact.artifact.pointer
    opened.clear()
    readers = Team("t", members=[FunctionAgent("a", keep), FunctionAgent("b", read)])
    async with Engine(journal) as engine:
        await engine.fork("r", at=kept.number + 2, team=readers, task=pointer)
        await engine.fork("r", at=kept.number - 1, team=Team("t", members=[FunctionAgent("b", read)]), task=pointer)
        await engine.run(Team("t", members=[FunctionAgent("b", read)]), pointer)
        claimed = Artifact(hash=kept.fact.artifact.hash, name="mine")

        async def claim(turn: Turn, ctx: Context) -> Reply:
            return Reply(messages=(Message(name="a", content="I kept it"),), artifacts=(claimed,))

        await engine.run(Team("t", members=[FunctionAgent("a", claim), FunctionAgent("b", read)]), pointer)
    assert opened == ["a long report", "not_found", "not_found", "not_found"]


async def test_strategies_pass_pointers_on_and_do_not_open_them() -> None:
    async def opening(task: Task, members: Members, ctx: Context) -> Outcome:
        return outcome(str(await ctx.workspace.open("0" * 40)))

    from teamwright.errors import MisplacedEffect

    with pytest.raises(MisplacedEffect):
        await run(FakeMembers().member("a"), strategy=FunctionStrategy(opening))


async def test_a_line_and_a_figure_are_recorded_where_they_were_made(  # P-08
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hush-7f3a-very-secret")

    async def talk(turn: Turn, ctx: Context) -> str:
        await ctx.emit(RunLogged(text="the key is hush-7f3a-very-secret", level="warning"))
        await ctx.emit(RunMeasured(name="pages", value=3))
        return "ok"

    _, events, _ = await run(FunctionAgent("a", talk))
    logged = [event for event in events if isinstance(event.fact, RunLogged)]
    assert [(event.scope, event.fact.to_json()) for event in logged] == [
        ("t/step-1", {"text": "the key is [redacted]", "level": "warning"})
    ]


async def test_a_fork_sees_the_values_as_of_the_fork() -> None:
    async def count(turn: Turn, ctx: Context) -> str:
        held = ctx.workspace.get("n")
        before = held.value if held else 0
        assert isinstance(before, int)
        await ctx.workspace.put("n", before + 1)
        return f"{turn.task}: {before + 1}"

    members = [FunctionAgent("a", count), FunctionAgent("b", count), FunctionAgent("c", count)]
    team = Team("t", members=members)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
        events = await journal.read("r")
        second = [event.number for event in events if event.kind == "agent.replied"][1]
        forked = await engine.fork("r", at=second, team=team)
    assert [message.content for message in forked.messages] == ["go: 1", "go: 2", "go: 3"]


async def test_an_agent_that_reads_a_failed_result_does_not_see_why() -> None:  # law 5
    async def trouble(turn: Turn) -> str:
        raise AgentError("TROUBLE")

    async def read(turn: Turn, ctx: Context) -> str:
        found = ctx.workspace.result("step-1")
        assert isinstance(found, Failure)
        return f"{found.member} {found.error} {found.message!r}"

    result, _, _ = await run(FunctionAgent("a", trouble, optional=True), FunctionAgent("b", read))
    assert result.output == "a error ''"
