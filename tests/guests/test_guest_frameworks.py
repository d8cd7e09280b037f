"""What holds for the guest of every framework; each test runs where the framework is installed."""

from __future__ import annotations

import threading

import anyio
import pytest

from teamwright import Engine, Limits, Team
from teamwright.journal import MemoryJournal
from teamwright.testing import CallTools, ChatRequest, ModelServer, Say
from teamwright.values.events.agent import AgentCalled
from tests.guests.members import MAKERS, ask_for_rome, call, maker, results, server_model

pytestmark = [pytest.mark.parametrize("framework", MAKERS), pytest.mark.filterwarnings("ignore")]


async def test_each_request_and_recorded_tool_of_a_guest_is_an_effect(framework: str) -> None:
    make = maker(framework)
    with ModelServer(ask_for_rome) as server:
        async with Engine(journal := MemoryJournal()) as engine:
            team = Team("t", members=[make("g", server_model(server))])
            result = await engine.run(team, "How is it?", run_id="r")
        first, second = server.requests
        assert first.tools == ("weather",)
        assert results(second) == ["The weather of Rome: rain"]
    assert result.output == "The weather of Rome: rain."
    kinds = [event.fact.effect for event in await journal.read("r") if isinstance(event.fact, AgentCalled)]
    assert kinds == ["model", "tool", "model"]
    assert result.usage.requests == 2
    assert result.usage.usd is not None
    assert result.usage.usd > 0


async def test_tools_that_a_guest_calls_side_by_side_are_each_recorded(framework: str) -> None:
    make = maker(framework)

    def answer(request: ChatRequest) -> Say | CallTools:
        return Say(text=" ".join(sorted(found))) if (found := results(request)) else call("Rome", "Oslo")

    with ModelServer(answer) as server:
        async with Engine(journal := MemoryJournal()) as engine:
            team = Team("t", members=[make("g", server_model(server))])
            result = await engine.run(team, "How is it?", run_id="r")
    assert result.output == "The weather of Oslo: rain The weather of Rome: rain"
    called = [event.fact for event in await journal.read("r") if isinstance(event.fact, AgentCalled)]
    assert [fact.effect for fact in called] == ["model", "tool", "tool", "model"]


async def test_a_guest_beyond_its_budget_asks_nothing_more(framework: str) -> None:
    make = maker(framework)
    with ModelServer(ask_for_rome) as server:
        async with Engine(MemoryJournal()) as engine:
            team = Team("t", members=[make("g", server_model(server), limits=Limits(calls=2))])
            result = await engine.run(team, "How is it?")
        assert (result.stop_reason, server.count) == ("budget", 1)


@pytest.mark.parametrize("reason", ["cancel", "deadline"])
async def test_a_guest_that_is_stopped_ends_at_once(framework: str, reason: str) -> None:
    make = maker(framework)
    is_over = threading.Event()

    def answer(request: ChatRequest) -> Say:
        is_over.wait(20)
        return Say(text="Late.")

    with ModelServer(answer) as server:
        limits = Limits(seconds=0.3) if reason == "deadline" else None
        async with Engine(MemoryJournal()) as engine:
            team = Team("t", members=[make("g", server_model(server), limits=limits)])
            handle = await engine.start(team, "How is it?", run_id="r")
            await anyio.to_thread.run_sync(server.wait_for, 1)
            if reason == "cancel":
                await engine.runs.cancel("r", wait=False)
            with anyio.fail_after(5):
                result = await handle.result()
        is_over.set()
        assert server.count == 1
    assert result.status == ("cancelled" if reason == "cancel" else "failed")


async def test_a_model_that_fails_fails_the_turn_with_its_own_kind_of_error(framework: str) -> None:
    from teamwright.testing import Fail

    make = maker(framework)
    with ModelServer(lambda request: Fail(status=401)) as server:
        async with Engine(MemoryJournal()) as engine:
            result = await engine.run(Team("t", members=[make("g", server_model(server))]), "How is it?")
    assert result.failure is not None
    assert result.failure.error == "invalid_request"
