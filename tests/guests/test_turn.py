from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from teamwright import Engine, Limits, Team
from teamwright.errors import LimitReached, NonDeterminism, UsageError
from teamwright.guests import recorded
from teamwright.guests.guest import Framework, Guest, GuestAnswer
from teamwright.guests.turn import GuestTurn, current_turn
from teamwright.journal import MemoryJournal
from teamwright.runtime.context import effect
from teamwright.testing import ChatRequest, ModelServer, Say
from teamwright.values.events.agent import AgentCalled, AgentReturned
from tests.guests.members import server_model
from tests.kit.records import cut

CALLS: list[str] = []
Work = Callable[[GuestTurn], Awaitable[str]]


class Loop(Guest):
    """A guest whose loop is a function of its turn."""

    framework = Framework("plain", "types", "FunctionType", "a loop")

    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        return GuestAnswer(await self.guest(turn))


@recorded
async def note(text: str, of: object = None) -> str:
    CALLS.append(text)
    return text


@recorded
def note_in_thread(text: str) -> str:
    CALLS.append(text)
    return text


async def ask(turn: GuestTurn, text: str) -> str:
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters

    response = await turn.request([ModelRequest([UserPromptPart(text)])], None, ModelRequestParameters())
    return str(response.text)


def ask_in_thread(turn: GuestTurn, text: str) -> str:
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters

    return str(turn.request_in_thread([ModelRequest([UserPromptPart(text)])], None, ModelRequestParameters()).text)


def team(server: ModelServer, work: Work, **settings: Any) -> Team:
    return Team("t", members=[Loop("g", work, model=server_model(server), **settings)])


async def cut_at_every_event(server: ModelServer, work: Work, requests: int) -> None:
    """Resume a run from each cut of its record; nothing recorded is asked again, and the result is the same."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team(server, work), "Go", run_id="r")
    assert result.status == "completed", result
    events = await journal.read("r")
    for at in range(2, len(events)):
        models = {one.key for one in events[:at] if isinstance(one.fact, AgentCalled) and one.fact.effect == "model"}
        known = sum(isinstance(one.fact, AgentReturned) and one.key in models for one in events[:at])
        server.clear()
        async with Engine(await cut(journal, at)) as engine:
            with anyio.fail_after(10):
                again = await engine.resume("r", team=team(server, work))
        assert (again.status, again.output) == (result.status, result.output)
        assert server.count == requests - known, f"after {at} events"


async def test_requests_that_a_guest_makes_side_by_side_resume_in_any_order() -> None:
    async def branch(turn: GuestTurn, name: str, pauses: list[float]) -> str:
        said = name
        for pause in pauses:
            await asyncio.sleep(pause)
            said = await ask(turn, said)
        return said

    async def work(turn: GuestTurn) -> str:
        slow, fast = branch(turn, "a", [0.0, 0.02, 0.0]), branch(turn, "b", [0.0, 0.0, 0.01])
        return " ".join(await asyncio.gather(slow, fast))

    with ModelServer(lambda request: Say(text=f"{request.prompt[-9:]}.")) as server:
        await cut_at_every_event(server, work, 6)


async def test_the_same_request_twice_is_two_requests() -> None:
    async def work(turn: GuestTurn) -> str:
        return f"{await ask(turn, 'Hi')} {await ask(turn, 'Hi')}"

    with ModelServer(lambda request: Say(text="Hello.")) as server:
        await cut_at_every_event(server, work, 2)


async def test_a_thread_of_a_guest_asks_as_its_tasks_do() -> None:
    async def work(turn: GuestTurn) -> str:
        return " ".join([await asyncio.to_thread(ask_in_thread, turn, "a"), await asyncio.to_thread(run_a_loop, turn)])

    def run_a_loop(turn: GuestTurn) -> str:
        return asyncio.run(ask(turn, "b"))

    with ModelServer(lambda request: Say(text=f"{request.prompt}!")) as server:
        await cut_at_every_event(server, work, 2)


async def test_a_guest_that_asks_something_else_than_recorded_is_refused_and_not_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effect, "PATIENCE", 0.1)

    async def work(turn: GuestTurn) -> str:
        await ask(turn, f"It is {time.time_ns()}")
        return await ask(turn, "Then?")

    journal = MemoryJournal()
    with ModelServer() as server:
        async with Engine(journal) as engine:
            await engine.run(team(server, work), "Go", run_id="r")
        events = await journal.read("r")
        first = next(event.number for event in events if isinstance(event.fact, AgentReturned))
        server.clear()
        async with Engine(await cut(journal, first)) as engine:
            with pytest.raises(NonDeterminism, match="came next"):
                await engine.resume("r", team=team(server, work))
        assert server.count == 0
        async with Engine(copy := await cut(journal, first)) as engine:
            forked = await engine.fork("r", team=team(server, work))
        assert forked.status == "completed", "a fork goes on with the changed program"
        assert len(await copy.runs()) == 2


async def test_a_recorded_function_is_called_once_and_resumes_with_its_result() -> None:
    async def work(turn: GuestTurn) -> str:
        return " ".join([await note("a", of=turn), await asyncio.to_thread(note_in_thread, "b"), await ask(turn, "c")])

    journal = MemoryJournal()
    with ModelServer() as server:
        async with Engine(journal) as engine:
            result = await engine.run(team(server, work), "Go", run_id="r")
        events = await journal.read("r")
        for at in range(2, len(events)):
            known = sum(event.kind == "agent.returned" and "/tool-" in event.key for event in events[:at])
            CALLS.clear()
            async with Engine(await cut(journal, at)) as engine:
                again = await engine.resume("r", team=team(server, work))
            assert (again.output, CALLS) == (result.output, ["a", "b"][known:])


async def test_outside_of_a_turn_a_recorded_function_is_called_as_usual_and_there_is_no_model() -> None:
    CALLS.clear()
    assert (await note("a"), note_in_thread("b")) == ("a", "b")
    assert CALLS == ["a", "b"]
    with pytest.raises(UsageError, match="answers only in a turn of its guest"):
        current_turn("A chat_model()")


async def test_a_budget_that_a_guest_catches_fails_its_turn_all_the_same() -> None:
    async def work(turn: GuestTurn) -> str:
        for _ in range(3):
            with suppress(LimitReached):
                await ask(turn, "Hi" * 2000)
        return "I went on."

    with ModelServer() as server:
        async with Engine(MemoryJournal()) as engine:
            result = await engine.run(team(server, work, limits=Limits(tokens=100)), "Go")
        assert (result.stop_reason, server.count) == ("budget", 0)


async def test_a_synchronous_call_in_the_event_loop_is_refused_instead_of_waiting_for_itself() -> None:
    async def work(turn: GuestTurn) -> str:
        return ask_in_thread(turn, "a")

    with ModelServer() as server:
        async with Engine(MemoryJournal()) as engine:
            result = await engine.run(team(server, work), "Go")
    assert result.failure is not None
    assert "write the function with  async def" in result.failure.message


async def test_what_a_thread_asks_after_its_turn_has_ended_is_refused() -> None:
    later: list[BaseException] = []

    async def work(turn: GuestTurn) -> str:
        def ask_later() -> None:
            time.sleep(0.1)
            try:
                ask_in_thread(turn, "late")
            except BaseException as error:  # noqa: BLE001 - what it is is the test
                later.append(error)

        threads.append(asyncio.get_running_loop().run_in_executor(None, ask_later))
        return "done"

    threads: list[asyncio.Future[None]] = []
    with ModelServer() as server:
        async with Engine(MemoryJournal()) as engine:
            result = await engine.run(team(server, work), "Go")
            await asyncio.gather(*threads)
        assert (result.output, server.count) == ("done", 0)
    assert str(later[0]) == "The turn of 'g' has ended."


async def test_a_cancelled_turn_leaves_no_task_and_no_thread_that_waits() -> None:
    waiting: list[asyncio.Future[str]] = []

    async def work(turn: GuestTurn) -> str:
        waiting.append(asyncio.get_running_loop().run_in_executor(None, ask_in_thread, turn, "a"))
        return await waiting[0]

    def answer(request: ChatRequest) -> Say:
        server.stopped.wait(10)
        return Say(text="late")

    with ModelServer(answer) as server:
        async with Engine(MemoryJournal()) as engine:
            handle = await engine.start(team(server, work), "Go", run_id="r")
            await asyncio.to_thread(server.wait_for, 1)
            result = await engine.runs.cancel("r")
            assert result.status == "cancelled"
            with anyio.fail_after(2):
                await asyncio.wait(waiting)
            await handle.result()
        server.stopped.set()


@pytest.mark.parametrize("where", ["itself", "task", "group", "thread", "recorded"])
async def test_a_guest_that_exits_the_process_fails_its_turn_and_the_loop_goes_on(where: str) -> None:
    def leave() -> None:
        sys.exit("bye")

    async def leave_late() -> None:
        await asyncio.sleep(0)
        leave()

    async def work(turn: GuestTurn) -> str:
        match where:
            case "itself":
                leave()
            case "task":
                await asyncio.create_task(leave_late())
            case "group":
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(leave_late)
            case "thread":
                await asyncio.get_running_loop().run_in_executor(None, leave)
            case _:
                await recorded(leave_late)()
        return "here"

    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    with ModelServer() as server:
        async with Engine(MemoryJournal()) as engine:
            result = await engine.run(team(server, work), "Go")
    assert result.status == "failed"
    assert result.failure is not None
    assert "bye" in result.failure.message
    assert loop.get_task_factory() is before


def test_a_thread_that_a_cancelled_guest_leaves_behind_holds_up_nothing() -> None:
    is_over = threading.Event()

    async def work(turn: GuestTurn) -> str:
        return str(await asyncio.to_thread(is_over.wait, 60))

    async def main(server: ModelServer) -> str:
        async with Engine(MemoryJournal()) as engine:
            result = await engine.run(team(server, work, limits=Limits(seconds=0.2)), "Go")
        assert await asyncio.gather(*(asyncio.to_thread(str, n) for n in range(200))) == [str(n) for n in range(200)]
        return result.status

    with ModelServer() as server:
        assert asyncio.run(main(server)) == "failed"
    assert not is_over.is_set()
    is_over.set()
