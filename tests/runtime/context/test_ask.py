"""How a member's turn ends when something in it goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Context, Engine, FunctionAgent, Team, Turn
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import DuplicateKey
from teamwright.journal.codec import to_text
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.run import Custom, RunEnded
from teamwright.values.text.display import LONGEST_ERROR
from tests.kit.members import FakeMembers
from tests.kit.strategies import FunctionStrategy, outcome


class Panic(BaseException):
    """An exception as some extension modules raise it."""


@pytest.mark.parametrize("where", ["call", "agent", "branch"])
async def test_whatever_a_member_raises_fails_only_its_own_turn(where: str) -> None:
    async def call(turn: Turn) -> str:
        raise Panic("no more")

    async def agent(turn: Turn, ctx: Context) -> str:
        if where == "branch":
            async with ctx.branches(limit=1) as branches:
                branches.start("b", panics)
        raise Panic("no more")

    async def panics(ctx: Context) -> None:
        raise Panic("no more")

    bad = FunctionAgent("bad", call if where == "call" else agent, optional=True)
    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=[bad, FakeMembers().member("good", "fine")]), "go")
    assert (result.status, result.output) == ("degraded", "fine")
    assert "Panic: no more" in str(result.warnings)


async def test_a_journal_that_a_member_uses_by_itself_is_its_own_affair(tmp_path: Path) -> None:
    async def bad(turn: Turn) -> str:
        (tmp_path / "file").write_text("no folder")
        async with Engine(tmp_path / "file" / "j.db") as engine:
            return (await engine.run(FakeMembers().chain(1), "go")).output or ""

    members = [FunctionAgent("bad", bad, optional=True), FakeMembers().member("good", "fine")]
    async with Engine(tmp_path / "j.db") as engine:
        result = await engine.run(Team("t", members=members), "go")
    assert (result.status, result.output) == ("degraded", "fine")


async def test_an_error_without_a_text_or_with_a_huge_one_is_still_an_ending() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    async def mute(turn: Turn, ctx: Context) -> str:
        raise Mute

    async def loud(turn: Turn) -> str:
        raise ValueError("x" * 1_000_000)

    members = [FunctionAgent("mute", mute, optional=True), FunctionAgent("loud", loud, optional=True)]
    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=[*members, FakeMembers().member("good", "fine")]), "go", run_id="r")
        events = await engine.journal.read("r")
    assert result.output == "fine"
    assert sum(len(to_text(event.fact)) for event in events) < 50_000  # law 10


@pytest.mark.parametrize("wants_context", [True, False])
async def test_a_secret_at_the_end_of_a_long_error_is_not_half_recorded(
    wants_context: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correct-horse-battery-staple"
    monkeypatch.setenv("MY_API_KEY", secret)
    text = "x" * (LONGEST_ERROR - 30) + secret

    async def call(turn: Turn) -> str:
        raise ValueError(text)

    async def agent(turn: Turn, ctx: Context) -> str:
        raise ValueError(text)

    async with Engine("memory") as engine:
        bad = FunctionAgent("a", agent if wants_context else call)
        await engine.run(Team("t", members=[bad]), "go", run_id="r")
        events = await engine.journal.read("r")
    assert "xxx" in str(events)
    assert "correct" not in str(events)


async def test_a_key_is_taken_however_it_is_written() -> None:
    async def twice(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.scope("a") as part:
            await part.ask(members[0], Turn(task.text), key="b")
        await ctx.ask(members[0], Turn(task.text), key="a/b")
        return outcome("never")

    async with Engine("memory") as engine:
        with pytest.raises(DuplicateKey, match="t/a/b"):
            await engine.run(Team("t", members=[FakeMembers().member("m")], strategy=FunctionStrategy(twice)), "go")


@pytest.mark.parametrize("keys", [("a", "a/b"), ("a/b", "a"), ("x/a", "x/a/b/c"), ("x/a/b/c", "x/a")])
async def test_an_ask_below_another_is_refused_because_its_ending_would_stand_for_both(keys: tuple[str, ...]) -> None:
    async def nests(task: Task, members: Members, ctx: Context) -> Outcome:
        for key in keys:
            await ctx.ask(members[0], Turn(task.text), key=key)
        return outcome("never")

    async with Engine("memory") as engine:
        with pytest.raises(DuplicateKey, match=f"'t/{keys[1]}'"):
            await engine.run(Team("t", members=[FakeMembers().member("m")], strategy=FunctionStrategy(nests)), "go")


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_branch", [True, False])
async def test_a_part_or_a_branch_below_an_ask_is_refused_too(is_first: bool, is_branch: bool) -> None:
    async def nests(task: Task, members: Members, ctx: Context) -> Outcome:
        async def below() -> None:
            if is_branch:
                async with ctx.branches(1) as branches:
                    branches.start("plan/again", lambda inner: inner.ask(members[0], Turn(task.text), key="x"))
            else:
                async with ctx.scope("plan/again") as part:
                    await part.ask(members[0], Turn(task.text), key="x")

        if is_first:
            await below()
        await ctx.ask(members[0], Turn(task.text), key="plan")
        await below()
        return outcome("never")

    async with Engine("memory") as engine:
        with pytest.raises(DuplicateKey, match="t/plan"):
            await engine.run(Team("t", members=[FakeMembers().member("m")], strategy=FunctionStrategy(nests)), "go")


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (RunEnded(status="completed", stop_reason="done"), "Only the engine records 'run.ended'"),
        (Custom(domain="d", name="n", data={"a": object()}), "must be JSON"),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_what_cannot_be_emitted_fails_the_turn(fact: RunEnded | Custom, words: str) -> None:  # law 6
    async def emits(turn: Turn, ctx: Context) -> str:
        await ctx.emit(fact)
        return "never"

    members = [FunctionAgent("bad", emits, optional=True), FakeMembers().member("good", "fine")]
    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=members), "go", run_id="r")
        kinds = [event.kind for event in await engine.journal.read("r")]
    assert (result.status, result.output) == ("degraded", "fine")
    assert words in str(result.warnings)
    assert kinds.count("run.ended") == 1


async def test_what_an_effect_returns_is_what_a_replay_is_given() -> None:
    seen: list[object] = []

    async def pair(attempt: Attempt) -> Returned:
        return Returned((1, 2))  # pyright: ignore[reportArgumentType] - a tuple is a list when it is read back

    async def agent(turn: Turn, ctx: Context) -> str:
        seen.append((await ctx.effect("pair", Effect("function", "pair", "", pair))).value)
        return "done"

    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[FunctionAgent("a", agent)]), "go")
    assert seen == [[1, 2]]
