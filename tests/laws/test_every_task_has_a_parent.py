"""Law 4: cancelling or timing out leaves nothing behind, and every ask that began has exactly one ending."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.agents.agent import Agent
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import InboxItem
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatAnswer, ChatRequest, Drop, ModelServer
from teamwright.values.events.agent import AgentAsked, AgentCallFailed, AgentFailed, AgentReturned
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.limits import Limits
from teamwright.values.people import Cancel
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.turn import Turn
from tests.kit.effects import ReturnSchedule, effect_member, is_gone, wait_until
from tests.laws.crash.http_members import http_member
from tests.laws.program import program_team
from tests.laws.random_programs import RUN_ID, TASK, RandomProgram, has_begun, log_of, random_programs
from tests.paths import ROOT

NEVER = RetryPolicy(times=0)
ENDINGS = ("agent.replied", "agent.failed")


def _around(key: str, scopes: Mapping[str, str]) -> Iterator[str]:
    """The asks that contain this one. The key of a summary is below the ask it is made for, but not part of it."""
    scope = scopes[key]
    while scope:
        if scope in scopes:
            yield scope
        scope = scopes.get(scope, scope.rpartition("/")[0])


def check_endings(events: Sequence[Event]) -> None:
    """Check that each ask has one ending, after its beginning and after the endings of the asks inside it."""
    asked = {event.key: event.number for event in events if isinstance(event.fact, AgentAsked)}
    ended = Counter(event.key for event in events if event.kind in ENDINGS)
    assert ended == dict.fromkeys(asked, 1)
    numbers = {event.key: event.number for event in events if event.kind in ENDINGS}
    scopes = {event.key: event.scope for event in events if event.kind in ENDINGS}
    for key, number in numbers.items():
        assert asked[key] < number
        assert all(number < numbers[one] for one in _around(key, scopes)), f"{key} ended after what it is part of"
    outcomes = Counter(
        (event.key, event.fact.attempt) for event in events if isinstance(event.fact, AgentReturned | AgentCallFailed)
    )
    assert set(outcomes.values()) <= {1}


@given(
    random_program=random_programs(timers=True, failures=True),
    delays=st.lists(st.integers(0, 25), min_size=1, max_size=8),
    cancel_at=st.one_of(st.none(), st.integers(2, 40)),
)
async def test_every_ask_has_exactly_one_ending_however_the_run_ends(
    random_program: RandomProgram, delays: list[int], cancel_at: int | None
) -> None:
    journal, before = MemoryJournal(), asyncio.all_tasks()
    with anyio.fail_after(10):
        async with Engine(journal) as engine:

            def listen(item: Event | AnyDelta) -> None:
                if isinstance(item, Event) and item.number == cancel_at and (run := engine.driver.live.get(RUN_ID)):
                    asyncio.get_running_loop().call_soon(run.receive, InboxItem(1, RUN_ID, Cancel()))

            with engine.bus.listening(listen):
                result = await engine.run(random_program.team(ReturnSchedule(delays)), TASK, run_id=RUN_ID)
    assert result.status in ("completed", "cancelled")
    check_endings(log_of(journal))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before


async def hang(turn: Turn) -> str:
    await asyncio.get_running_loop().create_future()
    return ""


async def delegates_to_all(turn: Turn) -> dict[str, Any]:
    return {"action": "delegate", "delegations": [{"specialist": f"h{number}", "task": "hang"} for number in range(3)]}


def shapes() -> dict[str, tuple[Callable[[Sequence[Agent]], Team], int]]:
    """Teams of three members that never answer, and how many of them are in flight."""
    side_by_side = ["all", 3, ["ask", "h0"], ["ask", "h1"], ["ask", "h2"]]
    boss = FunctionAgent("boss", delegates_to_all)
    names = ["h0", "h1", "h2"]
    made: dict[str, tuple[dict[str, Any], int]] = {
        "sequential": ({}, 1),
        "round_robin": ({"max_turns": 2}, 1),
        "selector": (
            {"max_turns": 2, "options": {"edges": [{"from": "h0", "to": "h1"}, {"from": "h1", "to": "h2"}]}},
            1,
        ),
        "graph": ({"options": {"edges": [{"from": "h0", "to": "h1"}, {"from": "h1", "to": "h2"}]}}, 1),
        "fan_out": ({"options": {"chunks": names}}, 3),
        "dag": ({"options": {"steps": [{"id": name} for name in names]}}, 3),
        "hierarchical": ({"options": {"lead": "boss"}, "helpers": [boss]}, 3),
        "reactive": ({"options": {"subscriptions": [{"agent": name, "on": "workflow.started"} for name in names]}}, 3),
    }
    found: dict[str, tuple[Callable[[Sequence[Agent]], Team], int]] = {
        name: (partial(_team, name, more), count) for name, (more, count) in made.items()
    }
    found["nested"] = (lambda members: Team("t", members=[Team("inner", members=members)]), 1)
    found["branches"] = (lambda members: program_team("t", side_by_side, members), 3)
    return found


def _team(strategy: str, more: dict[str, Any], members: Sequence[Agent]) -> Team:
    return Team("t", members=members, strategy=strategy, **more)


@pytest.mark.parametrize("how", ["cancel", "deadline", "interrupt"])
@pytest.mark.parametrize("shape", list(shapes()))
async def test_no_task_and_no_socket_is_left_behind(shape: str, how: str) -> None:
    with _silent_server() as server:
        before, sockets = asyncio.all_tasks(), _sockets()
        members = [http_member(server.call_url, f"h{number}") for number in range(3)]
        make, at_once = shapes()[shape]
        team = make(members)
        team.policy = team.policy.changed(limits=Limits(seconds=0.3) if how == "deadline" else None)
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            handle = await engine.start(team, TASK, run_id=RUN_ID)
            if how != "deadline":  # which on a busy machine may come before the calls are dispatched
                await anyio.to_thread.run_sync(server.wait_for, at_once)
            if how == "cancel":
                await engine.runs.cancel(RUN_ID)
            if how != "interrupt":
                assert (await handle.result()).status == {"cancel": "cancelled", "deadline": "timeout"}[how]
                check_endings(log_of(journal))
                failures = [event.fact for event in log_of(journal) if isinstance(event.fact, AgentFailed)]
                assert {failure.error for failure in failures} <= {"cancelled", "deadline"}
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before
        assert _sockets(but=server) <= sockets


def _silent_server() -> ModelServer:
    """A server that never answers."""

    def wait(request: ChatRequest) -> ChatAnswer:
        server.stopped.wait()
        return Drop()

    server = ModelServer(wait)
    return server


def _sockets(but: ModelServer | None = None) -> int:
    """The open sockets of this process, without those of the server."""
    open_ = 0
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            open_ += "socket:" in str(one.readlink())
    return open_ - (len(but._endpoint._open) if but else 0)


async def test_a_run_that_is_cancelled_before_its_start_calls_no_member() -> None:
    schedule, journal = ReturnSchedule(), MemoryJournal()
    async with Engine(journal) as engine:
        await journal.send(RUN_ID, Cancel())
        result = await engine.run(
            Team("t", members=[effect_member("a", schedule), effect_member("b", schedule)]), TASK, run_id=RUN_ID
        )
    assert (result.status, result.stop_reason) == ("cancelled", "cancelled")
    assert not schedule.called
    assert not result.messages
    assert log_of(journal)[-1].kind == "run.ended"


async def test_messages_before_a_cancel_are_kept() -> None:
    async with Engine("memory") as engine:
        team = Team("t", members=[effect_member("a", ReturnSchedule()), FunctionAgent("h", hang)])
        handle = await engine.start(team, TASK, run_id=RUN_ID)
        await wait_until(partial(has_begun, engine, "step-2"))
        result = await engine.runs.cancel(RUN_ID)
        assert result.status == "cancelled"
        assert [message.name for message in result.messages] == ["a"]
        assert (await handle.result()).messages == result.messages


async def test_a_function_that_cannot_be_stopped_gets_a_grace_time_and_is_then_left_behind_visibly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("teamwright.agents.functions.threads.THREAD_GRACE", 0.05)
    release = threading.Event()

    def stubborn(turn: Turn) -> str:
        release.wait()
        return "too late"

    journal = MemoryJournal()
    async with Engine(journal) as engine:
        team = Team("t", members=[FunctionAgent("stubborn", stubborn, timeout=0.05, retry=NEVER)])
        result = await engine.run(team, TASK, run_id=RUN_ID)
    release.set()
    kinds = [event.kind for event in log_of(journal)]
    assert "agent.abandoned" in kinds
    assert kinds.index("agent.abandoned") < kinds.index("agent.failed")
    assert result.status == "failed"
    assert result.failure is not None
    assert result.failure.error == "timeout"
    check_endings(log_of(journal))


async def test_a_function_that_ends_within_the_grace_time_is_not_abandoned() -> None:
    started = threading.Event()

    def slow(turn: Turn) -> str:
        started.set()
        time.sleep(0.15)
        return "late"

    journal = MemoryJournal()
    async with Engine(journal) as engine:
        team = Team("t", members=[FunctionAgent("slow", slow, timeout=0.05, retry=NEVER)])
        await engine.run(team, TASK, run_id=RUN_ID)
    assert started.is_set()
    assert "agent.abandoned" not in [event.kind for event in log_of(journal)]


def write_pid_and_hang(text: str) -> str:
    """In another process: report the process id, and never return."""
    Path(text).write_text(str(os.getpid()), encoding="ascii")
    time.sleep(600)
    return ""


def test_a_function_in_its_own_process_is_really_ended(tmp_path: Path) -> None:
    place = tmp_path / "pid"

    async def main() -> None:
        agent = FunctionAgent("alone", write_pid_and_hang, isolate="process")
        async with Engine("memory") as engine:
            handle = await engine.start(Team("t", members=[agent]), str(place), run_id=RUN_ID)
            await wait_until(partial(_written, place))
            assert (await engine.runs.cancel(RUN_ID)).status == "cancelled"
            assert (await handle.result()).status == "cancelled"
        await wait_until(partial(is_gone, int(place.read_text())))

    anyio.run(main)


def test_a_function_in_its_own_process_ends_with_its_driver(tmp_path: Path) -> None:  # D-07
    place = tmp_path / "pid"
    program = (
        "import anyio\nfrom teamwright import Engine, FunctionAgent, Team\n"
        "from tests.laws.test_every_task_has_a_parent import write_pid_and_hang\n"
        "async def main():\n"
        "    async with Engine('memory') as engine:\n"
        "        agent = FunctionAgent('alone', write_pid_and_hang, isolate='process')\n"
        f"        await engine.run(Team('t', members=[agent]), {str(place)!r})\n"
        "if __name__ == '__main__':\n    anyio.run(main)\n"
    )
    (tmp_path / "driver.py").write_text(program)
    root = str(ROOT)
    driver = subprocess.Popen([sys.executable, tmp_path / "driver.py"], env={**os.environ, "PYTHONPATH": root})

    async def main() -> None:
        await wait_until(partial(_written, place))
        driver.kill()
        driver.wait()
        await wait_until(partial(is_gone, int(place.read_text())))

    anyio.run(main)


async def _written(place: Path) -> bool:
    return place.exists() and bool(place.read_text())
