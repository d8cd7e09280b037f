"""Shows the other processes of a cluster that a worker lives, and what it does.

It is for operators alone: the driver lock of a run shows whether it has a driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from teamwright.errors import JournalError
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.values.models import JsonValue

SHOW_SECONDS: Final = 2.0
LOST_SECONDS: Final = 10.0
"""A worker that was not seen for so long has died or is cut off."""


class Presence:
    """Writes what `describe` returns, every two seconds."""

    def __init__(self, journal: PostgresJournal, worker_id: str, describe: Callable[[], dict[str, JsonValue]]) -> None:
        self._journal, self._worker_id, self._describe = journal, worker_id, describe
        self.is_connected = False
        """Whether the database took what was written last."""
        self._due = asyncio.Event()

    async def watch(self) -> None:
        """Write again and again, also after the database was away."""
        while True:
            self._due.clear()
            await self.show()
            with suppress(TimeoutError):
                async with asyncio.timeout(SHOW_SECONDS):
                    await self._due.wait()

    def show_soon(self) -> None:
        """Write again at once, without waiting for the database."""
        self._due.set()

    async def show(self) -> None:
        """Write once."""
        try:
            await self._journal.workers.update(self._worker_id, self._describe())
        except JournalError:
            self.is_connected = False
        else:
            self.is_connected = True

    async def leave(self) -> None:
        """Remove the worker from the list."""
        with suppress(JournalError):
            await self._journal.workers.remove(self._worker_id)
