"""The transport in this process passes the conformance suite of transports."""

from __future__ import annotations

import pytest

from teamwright.errors import UsageError
from teamwright.runtime.transport import InProcessTransport, LiveSignal
from teamwright.testing.transport import TransportConformance


class TestInProcessTransport(TransportConformance):
    async def make(self) -> InProcessTransport:
        return InProcessTransport()


def test_a_queue_without_room_is_refused() -> None:
    with pytest.raises(UsageError, match="let it hold 1 or more"):
        InProcessTransport(0)


async def test_channels_that_nobody_listens_to_take_no_memory() -> None:
    transport = InProcessTransport()

    async def ignore(signal: LiveSignal) -> None:
        pass

    for number in range(3):
        remove, listener = transport.register(f"run-{number}", ignore), transport.listen(f"run-{number}")
        remove()
        await listener.aclose()
    assert not vars(transport)["_queues"]
    assert not vars(transport)["_handlers"]
