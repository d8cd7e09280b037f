"""The conformance suite of transports: inherit it in a test, and say how to make one."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator

from teamwright.runtime.transport import MOST_QUEUED, LiveSignal, Transport

QUIET = 0.05
"""Seconds after which something that waits has waited long enough."""
PATIENCE = 5.0


def signal(number: int) -> LiveSignal:
    """Return a wake-up for the event with this number."""
    return LiveSignal(type="wake", run_id="r", number=number)


async def take(listener: AsyncGenerator[LiveSignal], count: int) -> list[int]:
    """Return the numbers of the next signals of a listener."""
    return [(await asyncio.wait_for(anext(listener), PATIENCE)).number for _ in range(count)]


class TransportConformance:
    """What every transport does. `make` returns a new one, whose queues hold 1024 signals."""

    @abstractmethod
    async def make(self) -> Transport:
        """Return a transport for one test."""
        ...

    async def test_every_listener_receives_every_signal_in_order(self) -> None:
        """Fan out, in order."""
        transport = await self.make()
        one, other = transport.listen("c"), transport.listen("c")
        for number in range(1, 4):
            await transport.send("c", signal(number))
        assert await take(one, 3) == await take(other, 3) == [1, 2, 3]
        await transport.close()
        await one.aclose()
        await other.aclose()

    async def test_a_handler_receives_signals_until_it_is_removed(self) -> None:
        """Register, and remove."""
        transport, seen = await self.make(), list[int]()

        async def handle(one: LiveSignal) -> None:
            seen.append(one.number)

        remove = transport.register("c", handle)
        await transport.send("c", signal(1))
        remove()
        await transport.send("c", signal(2))
        await transport.close()
        assert seen == [1]

    async def test_a_handler_that_fails_keeps_a_signal_from_nobody(self) -> None:
        """The sender and the other handlers do not notice."""
        transport, seen = await self.make(), list[int]()

        async def fail(one: LiveSignal) -> None:
            raise ZeroDivisionError(one.number)

        async def handle(one: LiveSignal) -> None:
            seen.append(one.number)

        transport.register("c", fail)
        transport.register("c", handle)
        await transport.send("c", signal(1))
        await transport.close()
        assert seen == [1]

    async def test_an_unknown_channel_drops_what_it_is_sent(self) -> None:
        """No error, and nothing is kept for later."""
        transport = await self.make()
        await transport.send("nowhere", signal(1))
        listener = transport.listen("nowhere")
        await transport.send("nowhere", signal(2))
        assert await take(listener, 1) == [2]
        await transport.close()
        await listener.aclose()

    async def test_a_full_queue_blocks_its_sender_until_there_is_room(self) -> None:
        """Nothing is dropped, and memory is bounded."""
        transport = await self.make()
        listener = transport.listen("c")
        for number in range(MOST_QUEUED):
            await transport.send("c", signal(number))
        sender = asyncio.create_task(transport.send("c", signal(MOST_QUEUED)))
        await asyncio.sleep(QUIET)
        assert not sender.done()
        assert await take(listener, MOST_QUEUED + 1) == list(range(MOST_QUEUED + 1))
        await asyncio.wait_for(sender, PATIENCE)
        await transport.close()
        await listener.aclose()

    async def test_a_listener_that_was_closed_holds_nobody_up(self) -> None:
        """Whether it was iterated over before or not: nothing is kept for it any more."""
        transport = await self.make()
        fresh, used = transport.listen("c"), transport.listen("c")
        await transport.send("c", signal(0))
        assert await take(used, 1) == [0]
        await fresh.aclose()
        await used.aclose()
        for number in range(MOST_QUEUED + 1):
            await asyncio.wait_for(transport.send("c", signal(number)), PATIENCE)
        await transport.close()

    async def test_closing_wakes_everyone_who_waits(self) -> None:
        """Listeners end, and senders return."""
        transport = await self.make()
        idle, full = transport.listen("idle"), transport.listen("full")
        waiting = asyncio.create_task(anext(idle, None))
        for number in range(MOST_QUEUED):
            await transport.send("full", signal(number))
        sender = asyncio.create_task(transport.send("full", signal(-1)))
        await asyncio.sleep(QUIET)
        await transport.close()
        assert await asyncio.wait_for(waiting, PATIENCE) is None
        await asyncio.wait_for(sender, PATIENCE)
        await full.aclose()
