"""A run feeds a transport, which only wakes: everything that counts is in the journal."""

from __future__ import annotations

import asyncio

from teamwright import Engine
from teamwright.runtime.transport import InProcessTransport, LiveSignal
from tests.kit.members import FakeMembers


async def test_each_event_of_a_run_wakes_its_listeners() -> None:
    transport, seen = InProcessTransport(), list[LiveSignal]()

    async def note(signal: LiveSignal) -> None:
        seen.append(signal)

    transport.register("r", note)
    async with Engine("memory") as engine:
        handle = await engine.start(FakeMembers().chain(2), "go", run_id="r")
        feeding = asyncio.create_task(engine.runs.feed("r", transport))
        await handle.result()
        last = await feeding
        assert [one.number for one in seen] == [event.number for event in await engine.journal.read("r")]
        assert last == seen[-1].number
    await transport.close()
