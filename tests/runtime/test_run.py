"""One run under one driver: people, interventions, emitted events, odd members, and two engines on one journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Message, Team, Turn
from teamwright.errors import NotResumable, RunIsLive, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.teams.team_loader import load_team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RUN_FORMAT, Custom, RunStarted
from teamwright.values.people import Answer, Answered, Question
from tests.kit.members import FakeMembers
from tests.kit.records import cut, cut_and_resume, cut_in_format
from tests.kit.strategies import FunctionStrategy, outcome


def asks(*keys: str) -> FunctionStrategy:
    """Asks a member, then concurrently a person for each key, and returns the answers in the order of the keys."""

    async def run(task: Task, members: Members, ctx: Context) -> Outcome:
        await ctx.ask(members[0], Turn(task.text), key="first")
        async with ctx.branches(len(keys)) as branches:
            found = [
                branches.start(key, lambda inner, key=key: inner.ask_person(Question(text=f"{key}?"), key="q"))
                for key in keys
            ]
        return outcome(" ".join(branch.result().text for branch in found))

    return FunctionStrategy(run)


def team_that(strategy: FunctionStrategy) -> Team:
    return Team("t", members=[FakeMembers().member("a", "said")], strategy=strategy)


async def test_a_question_pauses_the_run_and_its_answer_resumes_it() -> None:
    team = team_that(asks("one"))
    async with Engine("memory") as engine:
        paused = await engine.run(team, "go", run_id="r")
        assert (paused.status, paused.stop_reason, paused.exit_code) == ("paused", "person", 7)
        await engine.runs.answer("r", "t/one/q", Answer(text="yes", by="me"))
        assert (await engine.resume("r", team=team)).output == "yes"


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
async def test_two_questions_may_be_answered_in_any_order(order: Sequence[str]) -> None:
    team = team_that(asks("one", "two"))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "go", run_id="r")
        for key in order:
            await engine.runs.answer("r", f"t/{key}/q", f"answer {key}")
            result = await engine.resume("r", team=team)
        assert result.output == "answer one answer two"
    for at in range(2, len(await journal.read("r"))):
        again, _ = await cut_and_resume(team, at, journal)
        assert again.output == result.output


async def test_both_answers_at_once_are_taken_in_one_go() -> None:
    team = team_that(asks("one", "two"))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        for key in ("two", "one"):
            await engine.runs.answer("r", f"t/{key}/q", key)
        assert (await engine.resume("r", team=team)).output == "one two"


async def test_resuming_without_an_answer_pauses_again() -> None:
    team = team_that(asks("one"))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        assert (await engine.resume("r", team=team)).status == "paused"
        kinds = [event.kind for event in await engine.journal.read("r")]
    assert kinds.count("person.asked") == 1
    assert kinds.count("run.paused") == 2


async def test_an_answer_that_came_before_its_question_is_kept() -> None:
    async with Engine("memory") as engine:
        await engine.journal.send("r", Answered(key="t/one/q", answer=Answer(text="early")))
        assert (await engine.run(team_that(asks("one")), "go", run_id="r")).output == "early"


async def test_an_early_answer_survives_a_pause() -> None:
    reached, release = anyio.Event(), anyio.Event()

    async def slow(turn: Turn) -> str:
        reached.set()
        await release.wait()
        return "said"

    team = Team("t", members=[FakeMembers().member("a", slow)], strategy=asks("one"))
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await reached.wait()
        await engine.journal.send("r", Answered(key="t/one/q", answer=Answer(text="early")))
        async with anyio.create_task_group() as group:
            group.start_soon(engine.runs.pause, "r")
            await anyio.sleep(0.15)
            release.set()
        assert (await handle.result()).stop_reason == "pause"
        assert (await engine.resume("r", team=team)).output == "early"


async def test_an_agent_may_ask_a_person_too() -> None:
    async def unsure(turn: Turn, ctx: Context) -> str:
        return (await ctx.ask_person(Question(text="sure?"), key="q")).text

    team = Team("t", members=[FunctionAgent("a", unsure)])
    async with Engine("memory") as engine:
        assert (await engine.run(team, "go", run_id="r")).status == "paused"
        await engine.runs.answer("r", "t/step-1/q", "quite")
        assert (await engine.resume("r", team=team)).output == "quite"


async def test_a_choice_bounds_the_answer() -> None:
    async def choose(task: Task, members: Members, ctx: Context) -> Outcome:
        return outcome((await ctx.ask_person(Question(text="?", choices=("yes", "no")), key="q")).text)

    team = team_that(FunctionStrategy(choose))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        with pytest.raises(UsageError, match="choose one of yes, no"):
            await engine.runs.answer("r", "t/q", "maybe")
        await engine.runs.answer("r", "t/q", "no")
        assert (await engine.resume("r", team=team)).output == "no"


async def test_a_fork_of_a_waiting_run_waits_by_itself() -> None:
    team = team_that(asks("one"))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        assert (await engine.fork("r", team=team, new_id="f")).status == "paused"
        await engine.runs.answer("f", "t/one/q", "forked")
        assert (await engine.resume("f", team=team)).output == "forked"
        assert (await engine.runs.result("r")).status == "paused"


async def test_other_branches_continue_while_a_person_is_asked() -> None:
    async def both(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            branches.start("person", lambda inner: inner.ask_person(Question(text="?"), key="q"))
            branches.start("member", lambda inner: inner.ask(members[0], Turn("x"), key="k"))
        return outcome("end")

    team = team_that(FunctionStrategy(both))
    async with Engine("memory") as engine:
        paused = await engine.run(team, "go", run_id="r")
    assert paused.status == "paused"
    assert paused.messages == (Message(name="a", content="said"),)


def customs(events: Sequence[Event]) -> list[object]:
    return [event.fact.data for event in events if isinstance(event.fact, Custom)]


async def test_an_emitted_event_is_recorded_once_whatever_happens() -> None:
    async def telling(turn: Turn, ctx: Context) -> str:
        for number in range(2):
            await ctx.emit(Custom(domain="shop", name="seen", data={"agent": number}))
        return "x"

    async def talkative(task: Task, members: Members, ctx: Context) -> Outcome:
        for number in range(2):
            await ctx.emit(Custom(domain="shop", name="sold", data=number))
            await ctx.ask(members[0], Turn("x"), key=f"k{number}")
        return outcome("end")

    team = Team("t", members=[FunctionAgent("a", telling)], strategy=FunctionStrategy(talkative))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    events = await journal.read("r")
    assert customs(events) == [0, {"agent": 0}, {"agent": 1}, 1, {"agent": 0}, {"agent": 1}]
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    for at in range(2, len(events)):
        copy = await cut(journal, at)
        async with Engine(copy) as engine:
            await engine.resume("r", team=team)
            again = await copy.read("r")
        assert customs(again) == customs(events)
        assert [event.number for event in again] == list(range(1, len(again) + 1))


@pytest.mark.parametrize("after", ["run.intervened", "agent.failed"])
async def test_a_cancel_survives_a_crash(after: str) -> None:
    reached = anyio.Event()

    async def hang(turn: Turn) -> str:
        reached.set()
        await anyio.sleep(60)
        return "never"

    members = FakeMembers()
    team = Team("t", members=[members.member("a", "said"), members.member("b", hang)])
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await reached.wait()
        await engine.runs.cancel("r")
        whole = await handle.result()
    members.received.clear()
    at = next(event.number for event in await journal.read("r") if event.kind == after)
    result, kinds = await cut_and_resume(team, at, journal)
    assert (result.status, result.messages) == (whole.status, whole.messages)
    assert kinds.count("run.ended") == kinds.count("run.intervened") == 1
    assert members.calls == []


async def test_a_run_without_a_driver_can_be_cancelled_without_its_team() -> None:
    reached = anyio.Event()

    async def hang(turn: Turn) -> None:
        reached.set()
        await anyio.sleep_forever()

    members = FakeMembers()
    async with Engine("memory") as engine:
        team = Team("t", members=[members.member("a", "said"), members.member("b", hang)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(engine.run, team, "go", run_id="r"))
            await reached.wait()
            tasks.cancel_scope.cancel()
        result = await engine.runs.cancel("r", "no longer needed")
        assert (result.status, [message.content for message in result.messages]) == ("cancelled", ["said"])
        with pytest.raises(NotResumable):
            await engine.resume("r", team=team)


async def test_two_engines_share_one_file_and_a_run_has_one_driver(tmp_path: Path) -> None:
    reached, release = [anyio.Event(), anyio.Event()], anyio.Event()

    def made(number: int = 0) -> Team:
        async def slow(turn: Turn) -> str:
            reached[number].set()
            await release.wait()
            return "x"

        return Team("t", members=[FakeMembers().member("a", slow), FakeMembers().member("b")])

    async with Engine(tmp_path / "j.db") as one, Engine(tmp_path / "j.db") as other:
        mine = await one.start(made(0), "go", run_id="mine")
        theirs = await other.start(made(1), "go", run_id="theirs")
        for each in reached:
            await each.wait()
        with pytest.raises(RunIsLive):
            await other.resume("mine", team=made())
        again = await other.start(made(), "go", run_id="mine")
        assert not again.drives
        release.set()
        assert (await mine.result()).status == (await theirs.result()).status == "completed"
        assert {run.id: run.status for run in await one.runs.list()} == {"mine": "completed", "theirs": "completed"}
        assert len((await other.runs.result("mine")).messages) == 2


async def test_one_engine_receives_what_another_sends(tmp_path: Path) -> None:
    reached = anyio.Event()

    async def hang(turn: Turn) -> str:
        reached.set()
        await anyio.sleep(60)
        return "never"

    async with Engine(tmp_path / "j.db") as one, Engine(tmp_path / "j.db") as other:
        handle = await one.start(Team("t", members=[FakeMembers().member("a", hang)]), "go", run_id="r")
        await reached.wait()
        with anyio.fail_after(10):
            assert (await other.runs.cancel("r")).status == "cancelled"
        assert (await handle.result()).status == "cancelled"


@pytest.mark.parametrize("size", [1, 1 << 20])
async def test_a_task_may_be_small_or_large(tmp_path: Path, size: int) -> None:
    async def length(turn: Turn) -> int:
        return len(turn.task)

    async with Engine(tmp_path / "j.db") as engine:
        assert (await engine.run(FunctionAgent("a", length), "x" * size)).data == size


async def test_a_huge_reply_is_kept_once(tmp_path: Path) -> None:
    async def huge(turn: Turn) -> str:
        return "x" * 3_000_000

    async with Engine(tmp_path / "j.db") as engine:
        team = Team("t", members=[FunctionAgent("a", huge), FunctionAgent("b", huge)])
        result = await engine.run(team, "go", run_id="r")
        assert len((await engine.runs.result("r")).output or "") == len(result.output or "") == 3_000_000
    assert (
        sum(file.stat().st_size for file in tmp_path.rglob("j.db*") if not file.name.endswith("-reserve")) < 5_000_000
    )


async def test_a_strategy_of_another_version_is_refused_with_a_clear_message() -> None:
    journal = MemoryJournal()
    team = team_that(asks("one"))
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
        newer = asks("one")
        newer.version = 2
        with pytest.raises(NotResumable, match="began with version 1 of the strategy 'written', and this is version 2"):
            await engine.resume("r", team=team_that(newer))


async def test_a_key_that_is_written_in_a_manifest_is_not_recorded(tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(
        "agents: {a: {function: 'tests.agents.sample_functions:shout'}, b: {model: m}, c: {model: n}}\n"
        "teams: {t: {members: [a], notify: {webhook: 'http://localhost:1/very-private-hook'}}}\n"
        "models:\n"
        "  m: {url: 'http://localhost:1/v1', name: x, api_key: very-private-key}\n"
        "  n: {url: 'http://localhost:1/v1', name: x, api_key: '${SOME_KEY}'}\n"
        "tools:\n"
        "  git: {mcp: {command: git-server, env: {GITHUB_TOKEN: very-private-token, PAGER: cat}}}\n"
        "  wiki: {mcp: {url: 'http://localhost:1', headers: {X-Auth-Token: very-private-header}}}\n"
    )
    async with Engine(tmp_path / "j.db") as engine:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("SOME_KEY", "from-the-environment")
            team = load_team(file, team="t")
        await engine.run(team, "go", run_id="r")
        await engine.fork("r", at=2, new_id="f", team=team)
        with pytest.raises(NotResumable, match=r"models\.m\.api_key, .* is a secret, and records do not store secrets"):
            await engine.fork("r", at=2, new_id="g")
    stored = b"".join(one.read_bytes() for one in tmp_path.glob("j.db*"))
    assert b"very-private" not in stored
    assert b'"PAGER":"cat"' in stored
    assert b"from-the-environment" not in stored
    assert b"${SOME_KEY}" in stored


async def test_nothing_is_recorded_after_the_end_whatever_a_strategy_left_behind() -> None:
    left: list[asyncio.Task[object]] = []

    async def careless(task: Task, members: Members, ctx: Context) -> Outcome:
        async def later() -> object:
            await anyio.sleep(0.05)
            return await ctx.ask(members[0], Turn(task.text), key="late")

        left.extend([asyncio.create_task(later()), asyncio.create_task(ctx.ask(members[1], Turn("x"), key="now"))])
        return outcome("done")

    async def slow(turn: Turn) -> str:
        await anyio.sleep(0.05)
        return "too late"

    members = [FakeMembers().member("a"), FakeMembers().member("b", slow)]
    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=members, strategy=FunctionStrategy(careless)), "go", run_id="r")
        await anyio.sleep(0.15)
        events = await engine.journal.read("r")
    for task in left:
        task.cancel()
    await asyncio.wait(left)
    assert result.output == "done"
    assert events[-1].kind == "run.ended"


async def test_a_new_run_records_its_format_and_so_does_its_fork() -> None:
    team, journal = Team("t", members=[FakeMembers().member("a", "said")]), MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
        forked = await engine.fork("r", team=team)
    started = (await journal.read("r"))[0].fact
    assert isinstance(started, RunStarted)
    assert started.format == RUN_FORMAT
    copied = (await journal.read(forked.run_id))[0].fact
    assert isinstance(copied, RunStarted)
    assert copied.format == RUN_FORMAT


async def test_a_run_that_a_newer_version_began_is_refused_with_a_clear_message() -> None:
    team, journal = Team("t", members=[FakeMembers().member("a", "said")]), MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    async with Engine(await cut_in_format(journal, RUN_FORMAT + 1, at=3)) as engine:
        with pytest.raises(NotResumable, match="newer version of Teamwright"):
            await engine.resume("r", team=team)
