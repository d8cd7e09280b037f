"""The driver lock of a run, held so that a cancellation never keeps it from being released."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from teamwright.journal.protocol import Journal


@asynccontextmanager
async def driver_lock(journal: Journal, run_id: str) -> AsyncGenerator[None]:
    """Hold the run's driver lock; raises `RunIsLive` when another driver holds it.

    The release is shielded: a journal that releases its lock over a network may wait for that, also while the engine
    is being closed.
    """
    lock = journal.drive(run_id)
    await lock.__aenter__()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await lock.__aexit__(None, None, None)
