"""The driver lock: held by one driver, and released also where the driver is being cancelled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from teamwright.errors import RunIsLive
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import driver_lock


class Remote(MemoryJournal):
    """A journal whose locks are slow, as those on another machine."""

    @asynccontextmanager
    async def drive(self, run_id: str) -> AsyncGenerator[None]:
        await anyio.sleep(0.01)
        async with super().drive(run_id):
            try:
                yield
            finally:
                await anyio.sleep(0.01)


async def test_a_run_has_one_driver() -> None:
    journal = Remote()
    async with driver_lock(journal, "r"):
        with pytest.raises(RunIsLive):
            async with driver_lock(journal, "r"):
                pass
        assert await journal.is_driven("r")
    assert not await journal.is_driven("r")


async def test_a_cancelled_driver_releases_its_lock() -> None:
    journal = Remote()
    with anyio.CancelScope() as scope:
        async with driver_lock(journal, "r"):
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert not await journal.is_driven("r")
    async with driver_lock(journal, "r"):
        pass


async def test_a_driver_that_is_cancelled_before_it_holds_the_lock_leaves_none() -> None:
    journal = Remote()
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with driver_lock(journal, "r"):
            pytest.fail("the lock must not be entered")
    assert not await journal.is_driven("r")
