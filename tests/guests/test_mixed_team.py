"""A team of guests and a member of ours: killed anywhere, on a budget, and cancelled."""

from __future__ import annotations

import threading
from collections import Counter

import anyio
import pytest

from teamwright import Engine
from teamwright.journal import MemoryJournal
from teamwright.testing import ChatRequest, ModelServer, Say
from teamwright.values.events.agent import AgentCalled, AgentReturned
from teamwright.values.limits import Limits
from tests.guests.members import LOOKED_UP, ask_for_rome, mixed_team, server_model
from tests.kit.records import cut

pytestmark = pytest.mark.filterwarnings("ignore")  # frameworks warn of themselves


async def run_once(journal: MemoryJournal, server: ModelServer) -> str | None:
    async with Engine(journal) as engine:
        result = await engine.run(mixed_team(server_model(server)), "How is it?", run_id="r")
    assert result.status == "completed", result
    return result.output


@pytest.mark.timeout(300)
async def test_killed_at_any_event_nothing_that_is_recorded_is_paid_for_again() -> None:
    journal = MemoryJournal()
    with ModelServer(ask_for_rome) as server:
        expected = await run_once(journal, server)
        events = await journal.read("r")
        requests = server.count
        for at in range(2, len(events)):
            kept = events[:at]
            answered = Counter(event.key for event in kept if isinstance(event.fact, AgentReturned))
            calls = {event.key: event.fact.effect for event in kept if isinstance(event.fact, AgentCalled)}
            server.clear()
            LOOKED_UP.clear()
            async with Engine(copy := await cut(journal, at)) as engine:
                with anyio.fail_after(30):
                    result = await engine.resume("r", team=mixed_team(server_model(server)))
            assert (result.status, result.output) == ("completed", expected)
            paid = sum(answered[key] for key, kind in calls.items() if kind == "model")
            assert server.count == requests - paid, f"after {at} events"
            later = await copy.read("r")
            called = Counter(event.key for event in later[at:] if isinstance(event.fact, AgentCalled))
            assert not called.keys() & answered.keys()


@pytest.mark.parametrize("share", [0.8, 1.1])
async def test_a_budget_holds_for_guests_as_for_ours(share: float) -> None:
    with ModelServer(ask_for_rome) as server:
        async with Engine(MemoryJournal()) as engine:
            free = await engine.run(mixed_team(server_model(server)), "How is it?")
            needed = free.usage.total_tokens
            limits = Limits(tokens=round(share * needed))
            result = await engine.run(mixed_team(server_model(server), limits), "How is it?")
    assert result.usage.total_tokens <= round(share * needed)


@pytest.mark.timeout(60)
async def test_a_cancelled_run_ends_and_asks_nothing_more() -> None:
    is_over, asked = threading.Event(), threading.Event()

    def answer(request: ChatRequest) -> Say:
        asked.set()
        is_over.wait(30)
        return Say(text="Late.")

    with ModelServer(answer) as server:
        async with Engine(MemoryJournal()) as engine:
            handle = await engine.start(mixed_team(server_model(server)), "How is it?", run_id="r")
            await anyio.to_thread.run_sync(asked.wait)
            began = anyio.current_time()
            await engine.runs.cancel("r")
            with anyio.fail_after(10):
                result = await handle.result()
            assert anyio.current_time() - began < 5
        is_over.set()
        assert server.count == 1
    assert result.status == "cancelled"
