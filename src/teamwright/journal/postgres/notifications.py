"""Notifications between processes: each announces in which runs it has committed something, and hears it of the others.

They only make waiting shorter: a process that misses one notices the change when it polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from psycopg.sql import SQL, Identifier

from teamwright.errors import JournalError
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.connection import Connection, connect

ANNOUNCE_SECONDS: Final = 0.05
"""The least time between two announcements: Postgres serializes the commits of all that notify."""
POLL_SECONDS: Final = 5.0
"""How long a listener waits without a notification before it looks for itself."""
RECONNECT_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 2.0
"""How long the last announcements may take."""
LONGEST_PAYLOAD: Final = 7_000
"""Bytes of an announcement, of which Postgres takes 8000; one of more runs names none, which stands for any."""

Announce = Callable[[str, str], Awaitable[None]]
"""Sends a payload to a channel."""


class Notifications:
    """Announces the commits of this process, and hears those of others on its own connection."""

    def __init__(self, address: DatabaseAddress, name: str, announce: Announce) -> None:
        self._address, self._name, self._announce = address, name, announce
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._announced: set[str] = set()
        self._watchers: dict[str, list[Callable[[], None]]] = {}

    async def open(self) -> None:
        """Begin to listen."""
        connection = await self._listen()
        self._listener = self._run(self._hear(connection))

    async def close(self) -> None:
        """Send the announcements that are due, as long as the server takes them, and end."""
        if self._listener is not None:
            self._listener.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def announce(self, run_ids: Collection[str]) -> None:
        """Tell other processes, soon, that something was committed here."""
        self._announced.update(run_ids)
        if self._sender is None:
            self._sender = self._run(self._send_soon())

    @contextmanager
    def watching(self, run_id: str, wake: Callable[[], None]) -> Generator[bool]:
        """For the duration of the block, call this when another process may have committed events of a run."""
        watchers = self._watchers.setdefault(run_id, [])
        watchers.append(wake)
        try:
            yield True
        finally:
            watchers.remove(wake)
            if not watchers and self._watchers.get(run_id) is watchers:
                del self._watchers[run_id]

    def wake(self) -> None:
        """Wake those who wait in this process."""
        self._changed.set()

    async def wait(self) -> None:
        """Wait for a change; return without one after `POLL_SECONDS`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._changed.wait()
        self._changed.clear()

    def _run(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _send_soon(self) -> None:
        await asyncio.sleep(ANNOUNCE_SECONDS)
        self._sender = None  # what is committed from now on needs another announcement
        payload, self._announced = " ".join((self._name, *self._announced)), set()
        if len(payload.encode()) > LONGEST_PAYLOAD:
            payload = self._name
        with suppress(JournalError):
            await self._announce(self._address.channel, payload)

    async def _listen(self) -> Connection:
        connection = await connect(self._address, f"{self._name}-listener")
        try:
            await connection.execute(SQL("LISTEN {}").format(Identifier(self._address.channel)))
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _hear(self, connection: Connection) -> None:
        """Hear notifications until the journal is closed; a connection that is lost is replaced."""
        while True:
            try:
                async with connection:
                    async for notification in connection.notifies():
                        name, *run_ids = notification.payload.split(" ")
                        if name != self._name:
                            self._changed.set()
                            self._wake_watchers(run_ids or list(self._watchers))
            except (psycopg.Error, OSError):
                pass
            while True:
                await asyncio.sleep(RECONNECT_SECONDS)
                with suppress(psycopg.Error, OSError):
                    connection = await self._listen()
                    break
            self._changed.set()  # a notification may have been missed
            self._wake_watchers(list(self._watchers))

    def _wake_watchers(self, run_ids: Collection[str]) -> None:
        for run_id in run_ids:
            for wake in tuple(self._watchers.get(run_id, ())):
                wake()
