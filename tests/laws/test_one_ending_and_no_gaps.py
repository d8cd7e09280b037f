"""Laws 6 and 7: each run has one ending, its last event; and following it from any event yields the same list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.model_server import ModelServer
from teamwright.values.events.event import AnyDelta, Delta, Event
from teamwright.values.events.run import RunEnded
from teamwright.values.limits import Limits
from teamwright.values.turns.turn import Turn
from tests.kit.effects import ReturnSchedule, effect_member, wait_until
from tests.laws.crash.fork_server import ForkServer
from tests.laws.crash.matrix import DRIVE
from tests.laws.crash.scenarios import answer
from tests.laws.random_programs import RUN_ID, TASK, RandomProgram, has_begun, log_of, random_programs


def check_ending(events: Sequence[Event]) -> RunEnded:
    """Check that the last event is the only ending."""
    assert [event.kind for event in events].count("run.ended") == 1
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    ended = events[-1].fact
    assert isinstance(ended, RunEnded)
    return ended


def check_team_endings(events: Sequence[Event]) -> None:
    """Check that each team that was started has one ending, the last event within its scope."""
    started = [event.scope for event in events if event.kind == "team.started"]
    ends = {event.scope: event.number for event in events if event.kind == "team.ended"}
    assert sorted(started) == sorted(event.scope for event in events if event.kind == "team.ended")
    for scope, number in ends.items():
        within = [event.number for event in events if event.scope == scope or event.scope.startswith(f"{scope}/")]
        assert max(within) == number


async def hang(turn: Turn) -> str:
    await asyncio.get_running_loop().create_future()
    return ""


def one_and(*more: FunctionAgent | Team, **options: object) -> Team:
    return Team("t", members=[effect_member("first", ReturnSchedule()), *more], **options)  # pyright: ignore[reportArgumentType]


def stops() -> dict[str, tuple[Callable[[], Team], str, str]]:
    """Ways for a run to end: the team, the status and the stop reason."""
    trouble, hanging = effect_member("trouble", ReturnSchedule(), 1, "no"), FunctionAgent("hang", hang)
    return {
        "done": (one_and, "completed", "done"),
        "failure": (lambda: one_and(trouble), "failed", "error"),
        "deadline": (lambda: one_and(hanging, limits=Limits(seconds=0.05)), "timeout", "deadline"),
        "budget": (
            lambda: one_and(effect_member("second", ReturnSchedule()), limits=Limits(calls=1)),
            "degraded",
            "budget",
        ),
        "max_turns": (lambda: one_and(strategy="round_robin", max_turns=2), "completed", "max_turns"),
        "fail_at_max_turns": (
            lambda: one_and(strategy="round_robin", max_turns=1, on_max_turns="fail"), "failed", "max_turns",
        ),
        "cancel": (lambda: one_and(hanging), "cancelled", "cancelled"),
        "nested deadline": (
            lambda: one_and(Team("inner", members=[hanging]), limits=Limits(seconds=0.05)), "timeout", "deadline",
        ),
        "nested cancel": (lambda: one_and(Team("inner", members=[hanging])), "cancelled", "cancelled"),
    }  # fmt: skip


@pytest.mark.parametrize("how", list(stops()))
async def test_however_a_run_stops_it_ends_once_and_keeps_the_messages(how: str) -> None:
    make, status, reason = stops()[how]
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(make(), TASK, run_id=RUN_ID)
        if "cancel" in how:
            await wait_until(partial(has_begun, engine, "step-2"))
            await engine.runs.cancel(RUN_ID)
        result = await handle.result()
        recorded = await engine.runs.result(RUN_ID)
    ended = check_ending(log_of(journal))
    check_team_endings(log_of(journal))
    assert (result.status, result.stop_reason) == (status, reason) == (ended.status, ended.stop_reason)
    assert [message.name for message in result.messages][:1] == ["first"]
    assert recorded.messages == result.messages
    assert (recorded.status, recorded.output, recorded.warnings) == (result.status, result.output, result.warnings)


@given(
    random_program=random_programs(timers=True, failures=True),
    delays=st.lists(st.integers(0, 25), min_size=1, max_size=6),
)
async def test_every_log_has_one_ending_and_no_gap(random_program: RandomProgram, delays: list[int]) -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(random_program.team(ReturnSchedule(delays)), TASK, run_id=RUN_ID)
        events = log_of(journal)
        check_ending(events)
        for after in range(len(events) + 1):
            assert [event async for event in engine.runs.follow(RUN_ID, after)] == events[after:]


@given(random_program=random_programs(), starts=st.lists(st.integers(0, 30), min_size=1, max_size=4))
async def test_followers_of_a_live_run_see_the_same_as_later_readers(
    random_program: RandomProgram, starts: list[int]
) -> None:
    journal = MemoryJournal()
    seen: dict[int, list[Event | AnyDelta]] = {}

    async def watch(index: int, after: int) -> None:
        seen[index] = [event async for event in engine.runs.follow(RUN_ID, after)]

    async with Engine(journal) as engine:
        handle = await engine.start(random_program.team(ReturnSchedule([5, 40])), TASK, run_id=RUN_ID)
        async with anyio.create_task_group() as group:
            for index, after in enumerate(starts):
                group.start_soon(watch, index, after)
                await asyncio.sleep(0)
            await handle.result()
    events = log_of(journal)
    for index, after in enumerate(starts):
        assert seen[index] == events[after:]


async def test_followers_in_other_engines_and_after_reconnects_see_the_same_list(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    schedule = ReturnSchedule()

    async def slow(turn: Turn, ctx: Context) -> str:
        async def call(attempt: Attempt) -> Returned:
            await asyncio.sleep(0.03)
            return Returned("x")

        await ctx.effect("e", Effect("function", "f", "r", call))
        return "slow"

    members = [FunctionAgent(f"s{number}", slow) for number in range(4)]
    async with Engine(path) as engine, Engine(path) as other:
        handle = await engine.start(Team("t", members=[*members, effect_member("last", schedule)]), TASK, run_id=RUN_ID)
        await wait_until(partial(has_begun, other, "step-1"))
        patched: list[Event | AnyDelta] = []
        while not patched or not isinstance(patched[-1], Event) or patched[-1].kind != "run.ended":
            # Three events, then the connection is lost.
            after = len(patched)
            async for event in other.runs.follow(RUN_ID, after):
                patched.append(event)
                if len(patched) == after + 3:
                    break
        await handle.result()
        events = await engine.journal.read(RUN_ID)
        assert patched == events


async def _exists(engine: Engine) -> bool:
    return await engine.journal.find("crashed") is not None


def test_a_follower_in_another_process_sees_every_event_of_a_run_that_is_driven_elsewhere(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"

    async def follow(after: int) -> list[Event | AnyDelta]:
        async with Engine(path) as engine:
            await wait_until(partial(_exists, engine))
            return [event async for event in engine.runs.follow("crashed", after)]

    async def main(url: str) -> None:
        followed: dict[int, list[Event | AnyDelta]] = {}

        async def watch(after: int) -> None:
            followed[after] = await follow(after)

        async with anyio.create_task_group() as group:
            group.start_soon(watch, 0)
            group.start_soon(watch, 4)
            arguments = {"scenario": "nested", "url": url, "journal": str(path)}
            await anyio.to_thread.run_sync(lambda: fork_server.run(DRIVE, **arguments))
        journal = SqliteJournal(path)
        await journal.open()
        events = await journal.read("crashed")
        await journal.close()
        check_ending(events)
        assert followed[0] == events
        assert followed[4] == events[4:]

    with ModelServer(answer) as server:
        anyio.run(main, server.call_url)


async def test_pieces_of_a_reply_have_no_number_and_are_never_stored() -> None:
    journal = MemoryJournal()
    agent = ScriptedAgent("s", [Rule(reply="one two three four five six", delay=0.02)])
    async with Engine(journal) as engine:
        seen = [item async for item in engine.stream(Team("t", members=[agent]), TASK, run_id=RUN_ID)]
    events = [item for item in seen if isinstance(item, Event)]
    deltas = [item for item in seen if isinstance(item, Delta)]
    assert events == log_of(journal)
    assert len(deltas) > 1
    assert not hasattr(deltas[0], "number")
    assert "".join(delta.text for delta in deltas) == "one two three four five six"
    assert [delta.offset for delta in deltas] == [sum(len(d.text) for d in deltas[:n]) for n in range(len(deltas))]
    assert {(delta.key, delta.attempt) for delta in deltas} == {("t/step-1", 1)}
    assert "one two" in "".join(journal._bodies.values())
    assert sum("one two" in body for body in journal._bodies.values()) == 1
