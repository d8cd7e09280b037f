"""Holds the driver lock of a run, and releases it even while the holder is being cancelled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from teamwright.journal.protocol import Journal


@asynccontextmanager
async def driver_lock(journal: Journal, run_id: str) -> AsyncGenerator[None]:
    """Hold the run's driver lock; raises `RunIsLive` when another driver holds it.

    The release is shielded from cancellation, because a journal may have to release its lock over a network while the
    engine is closing.
    """
    lock = journal.drive(run_id)
    await lock.__aenter__()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await lock.__aexit__(None, None, None)
