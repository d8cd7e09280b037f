"""The engine: starting, resuming, following, forking, cancelling."""

from __future__ import annotations

import random
from pathlib import Path

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Limits, Message, Team, Turn, run_sync
from teamwright.engine import resume_sync
from teamwright.errors import NonDeterminism, NotResumable, RunNotFound, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import InboxItem
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.values.events.event import Delta
from teamwright.values.people import Cancel, Pause
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.strategies import ArrivalOrder, FirstWins


async def test_a_run_returns_what_was_said_and_why_it_ended() -> None:
    members = FakeMembers()
    async with Engine("memory") as engine:
        result = await engine.run(members.chain(3), "Say hello")
    assert result.status == "completed"
    assert result.stop_reason == "done"
    assert [message.name for message in result.messages] == ["a1", "a2", "a3"]
    assert result.output == "a3 is done"
    assert (len(members.last_turn("a3").history), members.last_turn("a3").task) == (2, "Say hello")


async def test_a_chain_resumes_from_every_event_without_a_repeated_call() -> None:
    members = FakeMembers()
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(members.chain(4), "go", run_id="r")
        events = await journal.read("r")
    for at in range(1, len(events)):
        recorded = [e for e in events[:at] if e.kind == "agent.replied" and e.scope]
        again = FakeMembers()
        result, _ = await cut_and_resume(again.chain(4), at, journal)
        assert result.messages == whole.messages
        assert result.status == whole.status
        assert len(again.calls) == 4 - len(recorded)


@pytest.mark.parametrize("seed", range(8))
async def test_the_order_around_a_lock_is_the_same_on_resume(seed: int) -> None:
    chance = random.Random(seed)

    def team(slow: bool) -> tuple[Team, FakeMembers]:
        members = FakeMembers()

        async def answer(turn: Turn) -> str:
            if slow:
                await anyio.sleep(chance.random() / 200)
            return f"ok {turn.task}"

        agents = [members.member(name, answer) for name in "abcd"]
        return Team("race", members=agents, strategy=ArrivalOrder()), members

    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(team(slow=True)[0], "go", run_id="r")
    events = await journal.read("r")
    for at in range(2, len(events), 5):
        result, _ = await cut_and_resume(team(slow=False)[0], at, journal)
        if events[at - 1 :] and all(e.kind != "agent.replied" or e.scope == "" for e in events[at:]):
            assert result.output == whole.output
        recorded = [e for e in events[:at] if e.kind == "agent.asked" and e.place.endswith("-locked")]
        order = [e.scope.split("/")[1] + "-" + e.place.removesuffix("-locked") for e in recorded]
        assert str(result.output).split()[: len(order)] == order


async def test_the_first_to_finish_wins_and_the_others_are_stopped() -> None:
    members = FakeMembers()

    async def slow(turn: Turn) -> str:
        await anyio.sleep(60)
        return "too late"

    team = Team("race", members=[members.member("slow", slow), members.member("fast", "first")], strategy=FirstWins())
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(team, "go", run_id="r")
    assert whole.output == "first"
    events = await journal.read("r")
    endings = [e for e in events if e.kind in ("agent.replied", "agent.failed")]
    assert len(endings) == len([e for e in events if e.kind == "agent.asked"])
    for at in range(2, len(events)):
        result, _ = await cut_and_resume(team, at, journal)
        assert result.output == "first"


async def test_starting_the_same_id_twice_starts_nothing() -> None:
    members = FakeMembers()
    async with Engine("memory") as engine:
        first = await engine.run(members.chain(2), "go", run_id="mine")
        second = await engine.run(members.chain(2), "go", run_id="mine", limits=Limits(tokens=10))
    assert second.messages == first.messages
    assert members.calls == ["a1", "a2"]


async def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    async with Engine(tmp_path / "j.db") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="r")
        with pytest.raises(NotResumable, match="fork"):
            await engine.resume("r")
        with pytest.raises(RunNotFound):
            await engine.resume("nobody")


async def test_a_changed_program_is_reported_with_both_sides() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(FakeMembers().chain(3), "go", run_id="r")
    other = Team("chain", members=[FakeMembers().member("b1"), FakeMembers().member("a2"), FakeMembers().member("a3")])
    with pytest.raises(NonDeterminism, match=r"'a1'.*'b1'"):
        await cut_and_resume(other, 8, journal)


async def test_a_fork_pays_only_for_what_changed() -> None:
    members = FakeMembers()
    async with Engine("memory") as engine:
        await engine.run(members.chain(3), "go", run_id="r")
        members.received.clear()
        same = await (await engine.start_fork("r", team=members.chain(3), new_id="same")).result()
        assert members.calls == []
        assert same.output == "a3 is done"
        changed = Team("chain", members=[members.member("a1"), members.member("b2"), members.member("a3")])
        await (await engine.start_fork("r", team=changed, new_id="changed")).result()
        assert members.calls == ["b2", "a3"]


async def test_a_fork_with_retry_goes_back_before_the_failure() -> None:
    members = FakeMembers()
    broken = True

    async def sometimes(turn: Turn) -> str:
        if broken:
            raise ValueError("broken")
        return "mended"

    team = Team("chain", members=[members.member("a1"), members.member("a2", sometimes), members.member("a3")])
    async with Engine("memory") as engine:
        failed = await engine.run(team, "go", run_id="r")
        assert (failed.status, failed.stop_reason) == ("failed", "error")
        assert [message.name for message in failed.messages] == ["a1"]
        assert "'a2' failed" in failed.warnings[0]
        broken = False
        mended = await (await engine.start_fork("r", retry=True, team=team)).result()
    assert mended.status == "completed"
    assert members.calls == ["a1", "a2", "a2", "a3"]


async def test_a_follow_up_sees_the_conversation_before_it() -> None:
    members = FakeMembers()
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(2), "first", run_id="one")
        result = await engine.run(members.chain(1), "second", continues="one")
    assert (len(members.last_turn("a1").history), members.last_turn("a1").task) == (3, "second")
    assert len(result.messages) == 1


async def test_cancelling_a_live_run_keeps_the_messages() -> None:
    reached = anyio.Event()

    async def hang(turn: Turn) -> str:
        reached.set()
        await anyio.sleep(60)
        return "never"

    members = FakeMembers()
    team = Team("chain", members=[members.member("a1"), members.member("a2", hang), members.member("a3")])
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await reached.wait()
        await engine.runs.cancel("r")
        result = await handle.result()
        assert (result.status, result.stop_reason, result.exit_code) == ("cancelled", "cancelled", 6)
        assert [message.name for message in result.messages] == ["a1"]
        events = await engine.journal.read("r")
        assert events[-1].kind == "run.ended"
        with pytest.raises(NotResumable):
            await engine.runs.cancel("r")
    assert members.calls == ["a1", "a2"]


async def test_a_run_cancelled_before_its_start_calls_no_member() -> None:
    members = FakeMembers()
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        from teamwright.values.people import Cancel

        await journal.send("r", Cancel())
        result = await engine.run(members.chain(2), "go", run_id="r")
    assert result.status == "cancelled"
    assert members.calls == []


async def test_an_interrupted_run_has_no_ending_and_resumes(tmp_path: Path) -> None:
    hanging, given_up = True, anyio.CancelScope()

    async def hang(turn: Turn) -> str:
        if hanging:
            given_up.cancel()
            await anyio.sleep(60)
        return "done"

    members = FakeMembers()
    team = Team("chain", members=[members.member("a1"), members.member("a2", hang)])
    async with Engine(tmp_path / "j.db") as engine:
        with given_up:
            await engine.run(team, "go", run_id="r")
    async with Engine(tmp_path / "j.db") as engine:
        assert (await engine.runs.result("r")).status == "interrupted"
        hanging = False
        result = await engine.resume("r", team=team)
        kinds = [event.kind for event in await engine.journal.read("r")]
    assert result.status == "completed"
    assert members.calls == ["a1", "a2", "a2"]
    assert "agent.failed" not in kinds
    assert kinds.count("run.ended") == 1


async def test_a_deadline_returns_what_there_is() -> None:
    async def hang(turn: Turn) -> str:
        await anyio.sleep(60)
        return "never"

    members = FakeMembers()
    agents = [members.member("a1"), members.member("a2", hang)]
    team = Team("chain", members=agents, limits=Limits(seconds=0.3))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "go", run_id="r")
    assert (result.status, result.stop_reason, result.exit_code) == ("timeout", "deadline", 5)
    assert [message.name for message in result.messages] == ["a1"]
    events = await journal.read("r")
    assert [e.kind for e in events if e.kind == "run.expired"] == ["run.expired"]
    for at in range(2, len(events)):
        again, _ = await cut_and_resume(team, at, journal)
        assert (again.status, again.messages) == (result.status, result.messages)


async def test_a_limit_on_calls_stops_cleanly_with_a_partial_result() -> None:
    team = FakeMembers().chain(5)
    team.policy = team.policy.changed(limits=Limits(calls=3))
    async with Engine("memory") as engine:
        result = await engine.run(team, "go")
    assert (result.status, result.stop_reason, result.exit_code) == ("degraded", "budget", 4)
    assert [message.name for message in result.messages] == ["a1", "a2", "a5"], "the last member closes"


async def test_following_shows_deltas_and_every_event_once() -> None:
    from teamwright.agents.scripted import Rule, ScriptedAgent

    team = Team("t", members=[ScriptedAgent("s", [Rule(reply="hello there")])])
    async with Engine("memory") as engine:
        seen = [item async for item in engine.stream(team, "go", run_id="r")]
        recorded = await engine.journal.read("r")
    assert [item for item in seen if not isinstance(item, Delta)] == recorded
    assert "".join(item.text for item in seen if isinstance(item, Delta)) == "hello there"


@pytest.mark.parametrize("task", ["", " \n\t", "\u200b\u00a0"])
async def test_a_blank_task_is_refused_before_anything_is_recorded(task: str) -> None:  # K-11
    team = FakeMembers().chain(1)
    async with Engine("memory") as engine:
        with pytest.raises(UsageError, match="say in words what is to be done"):
            await engine.run(team, task)
        with pytest.raises(UsageError, match="The task is blank"):
            await engine.enqueue(team, task, queue="q")
        assert await engine.journal.runs() == []
        first = await engine.run(team, "go", run_id="first")
        with pytest.raises(UsageError, match="The task is blank"):
            await engine.fork(first.run_id, team=team, task=task)


async def test_a_task_that_is_too_large_is_refused() -> None:
    async with Engine("memory") as engine:
        with pytest.raises(UsageError, match="1024 KiB"):
            await engine.run(FakeMembers().chain(1), "x" * 2_000_000)


async def test_a_nested_team_speaks_under_its_own_name() -> None:
    members = FakeMembers()
    inner = Team("inner", members=[members.member("i1"), members.member("i2")])
    outer = Team("outer", members=[inner, members.member("last")])
    async with Engine("memory") as engine:
        result = await engine.run(outer, "go")
    assert [message.name for message in result.messages] == ["inner", "inner", "last"]
    assert result.messages[0] == Message(name="inner", content="i1 is done")


async def test_a_function_may_take_only_the_text() -> None:
    def shout(text: str) -> str:
        return text.upper()

    async with Engine("memory") as engine:
        result = await engine.run(FunctionAgent("shout", shout), "quiet")
    assert result.output == "QUIET"


async def test_the_reason_of_a_cancel_outlives_its_driver() -> None:
    reached = anyio.Event()

    async def hang(turn: Turn) -> str:
        reached.set()
        await anyio.sleep(60)
        return "never"

    team = Team("t", members=[FunctionAgent("a", hang)])
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await reached.wait()
        await engine.runs.cancel("r", reason="enough")
        await handle.result()
    events = await journal.read("r")
    at = next(event.number for event in events if event.kind == "run.intervened")
    result, _ = await cut_and_resume(team, at, journal)
    assert (result.status, result.warnings) == ("cancelled", ("enough",))


async def test_an_engine_with_nothing_to_drive_looks_for_nothing(tmp_path: Path) -> None:
    looked = anyio.Event()

    class Watched(SqliteJournal):
        async def changed(self, every: float) -> None:
            looked.set()
            await super().changed(every)

    async def wait(turn: Turn) -> str:
        await looked.wait()
        return "seen"

    async with Engine(Watched(tmp_path / "j.db")) as engine:
        await anyio.wait_all_tasks_blocked()
        assert not looked.is_set()
        assert (await engine.run(FunctionAgent("a", wait), "go")).output == "seen"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("journal", ["memory", "journal.db"])
async def test_a_run_can_be_found_once_start_has_returned(tmp_path: Path, journal: str, named: bool) -> None:  # M-04
    async def hang(turn: Turn) -> str:
        await anyio.sleep_forever()
        return ""

    async with Engine(journal if journal == "memory" else tmp_path / journal) as engine:
        for number in range(20):
            handle = await engine.start(
                Team("t", members=[FunctionAgent("a", hang)]), "go", run_id=f"r{number}" if named else None
            )
            assert (await engine.runs.cancel(handle.run_id)).status == "cancelled"
            assert (await handle.result()).status == "cancelled"
            assert (await engine.journal.read(handle.run_id))[0].kind == "run.started"


async def test_a_start_that_is_given_up_leaves_no_run_that_is_driven(tmp_path: Path) -> None:  # M-04
    members = FakeMembers()
    async with Engine(tmp_path / "journal.db") as engine:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await engine.start(Team("t", members=[members.member("a")]), "go", run_id="r")
        with anyio.fail_after(5):
            while "r" in engine.driver.live:  # noqa: ASYNC110 - there is no event for the release of a run
                await anyio.sleep(0.01)


@pytest.mark.parametrize("first", ["pause", "interrupt"])
async def test_a_cancel_that_comes_while_the_run_is_being_left_cancels_it(first: str) -> None:  # D-07
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        started = anyio.Event()

        async def hang(turn: Turn) -> str:
            started.set()
            await anyio.sleep_forever()
            return ""

        handle = await engine.start(Team("t", members=[FunctionAgent("a", hang)]), "go", run_id="r")
        await started.wait()
        run = engine.driver.live.get("r")
        assert run is not None
        if first == "interrupt":
            handle.interrupt()
        else:
            run.state.open_calls.clear()  # the call returns at the same moment
            run.receive(InboxItem(1, "r", Pause()))
        run.receive(InboxItem(2, "r", Cancel(reason="enough")))
        result = await handle.result()
        assert (result.status, result.stop_reason) == ("cancelled", "cancelled")
        assert (await engine.runs.result("r")).status == "cancelled"
    kinds = [event.kind for event in await journal.read("r")]
    assert kinds[-1] == "run.ended"
    assert kinds.count("agent.failed") == kinds.count("agent.asked")


async def test_a_pause_and_a_cancel_that_wait_together_cancel_the_run() -> None:  # D-07
    journal, members = MemoryJournal(), FakeMembers()
    async with Engine(journal) as engine:
        await journal.send("r", Pause())
        await journal.send("r", Cancel(reason="enough"))
        result = await engine.run(Team("t", members=[members.member("a")]), "go", run_id="r")
        assert (result.status, members.calls) == ("cancelled", [])
        assert [event.kind for event in await journal.read("r")][-1] == "run.ended"


def test_a_run_is_run_and_resumed_without_async(tmp_path: Path) -> None:
    members = FakeMembers()

    async def paused() -> None:
        async with Engine(tmp_path / "j.db") as engine:
            handle = await engine.start(members.chain(1), "go", run_id="r")
            handle.interrupt()
            assert (await handle.result()).status == "interrupted"

    anyio.run(paused)
    resumed = resume_sync("r", team=members.chain(1), journal=tmp_path / "j.db")
    assert resumed.status == "completed"
    assert run_sync(members.chain(1), "go", journal=tmp_path / "j.db", run_id="r") == resumed


async def test_runs_are_found_and_deleted() -> None:
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="r")
        found = await engine.runs.find("r")
        assert found is not None
        assert found.run_id == found.id == "r"
        assert await engine.runs.delete("r") > 0
        assert await engine.runs.find("r") is None
        assert await engine.runs.list() == []
