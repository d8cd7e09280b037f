"""Where the database is, connections to it, what their errors mean, and notifications between processes.

The address is a URL, whose `schema` names the schema that contains the tables. Notifications only make waiting shorter:
each process announces in which runs it has committed something; one that misses it notices the change when it polls.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from socket import SHUT_RDWR, socket
from typing import Final, LiteralString, Protocol, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Identifier
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from teamwright.errors import JournalError, JournalUnavailable, UsageError

DEFAULT_SCHEMA = "teamwright"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where the tables of a journal are."""

    url: str
    schema: str

    @classmethod
    def parse(cls, url: str) -> DatabaseAddress:
        """Read `postgresql://…?schema=name`; raises `UsageError`. Without a schema it is `teamwright`."""
        try:
            urlsplit(url)
        except ValueError as error:
            raise UsageError(f"The address of the journal is not a valid URL: {error}.") from error
        server, _, text = url.partition("?")
        query = parse_qsl(text, keep_blank_values=True)
        schema = next((value for name, value in query if name == "schema"), DEFAULT_SCHEMA)
        if not _SCHEMA.fullmatch(schema):
            raise UsageError(
                f"{schema!r} can't be the schema of a journal: use up to 48 lower-case letters, digits and underscores."
            )
        rest = urlencode([(name, value) for name, value in query if name != "schema"], quote_via=quote)
        return cls(f"{server}?{rest}" if rest else server, schema)

    @property
    def shown(self) -> str:
        """The address without user and password, for messages."""
        server, _, query = self.url.partition("?")
        place = server.partition("://")[2].rpartition("@")[2]
        host = dict(parse_qsl(query)).get("host", "") if place.startswith("/") else ""
        return f"postgresql://{host}{place}?schema={self.schema}"

    @property
    def channel(self) -> str:
        """The channel of notifications about changes."""
        return f"teamwright_{self.schema}"

    def lock_key(self, name: str) -> int:
        """The key of the advisory lock with this name; locks of other schemas have other keys."""
        name_hash = blake2b(f"{self.schema}\0{name}".encode(), digest_size=8).digest()
        return int.from_bytes(name_hash, "big", signed=True)


T = TypeVar("T")
Connection = AsyncConnection[TupleRow]
Work = Callable[[Connection], Awaitable[T]]
"""Something to do with a connection."""


class UseConnection(Protocol):
    """Does work with one of the journal's connections."""

    def __call__(self, work: Work[T], /) -> Awaitable[T]: ...


LEAST_VERSION: Final = 14_00_00
"""The least version of Postgres, as its servers report it: the first that ends sessions that are silent."""
CONNECT_SECONDS: Final = 10

_KEEPALIVES: Final = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def settings_of(address: DatabaseAddress, name: str = "teamwright") -> dict[str, object]:
    """The settings of each connection: statements find the tables of the journal, and a dead peer is noticed."""
    return {
        "autocommit": True,
        "client_encoding": "utf8",
        "connect_timeout": CONNECT_SECONDS,
        "application_name": name,
        "options": f"-csearch_path={address.schema}",
        **_KEEPALIVES,
    }


DURABLE: Final[LiteralString] = (
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"
)
"""Lets each commit of a session wait for the disk, also where the server's own setting confirms it earlier.

A setting that waits longer, for replicas to apply it, stays. No connection may write without this statement.
"""


async def connect(address: DatabaseAddress, name: str = "teamwright", *, silence: int | None = None) -> Connection:
    """Open a connection, under this name; the server ends one that is silent for longer than so many seconds."""
    settings = settings_of(address, name)
    connection = await AsyncConnection.connect(address.url, **settings)  # pyright: ignore[reportArgumentType]
    try:
        check_version(address, connection.info.server_version)
        await make_durable(connection)
        if silence is not None:
            await connection.execute("SELECT set_config('idle_session_timeout', %s, false)", (f"{silence}s",))
    except BaseException:
        await connection.close()
        raise
    return connection


def check_version(address: DatabaseAddress, version: int) -> None:
    """Raise `JournalError` if a server is older than the least version."""
    if version < LEAST_VERSION:
        raise JournalError(
            f"The journal {address.shown} is on Postgres {version // 10000}, and Teamwright needs"
            f" {LEAST_VERSION // 10000} or newer: upgrade the server, or use another one."
        )


async def make_durable(connection: Connection) -> None:
    """Let each commit of a connection wait for the disk."""
    await connection.execute(DURABLE)


def is_lost(error: BaseException) -> bool:
    """Whether an error says that the connection, not the statement, has failed; the statement may have succeeded."""
    if isinstance(error, OSError | psycopg.InterfaceError):
        return True
    if not isinstance(error, psycopg.OperationalError):
        return False
    state = error.sqlstate
    return state is None or state.startswith(("08", "57P"))


@contextmanager
def translated_errors(address: DatabaseAddress) -> Generator[None]:
    """Raise errors of the database as errors of the journal."""
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise journal_error(address, error) from error


def journal_error(address: DatabaseAddress, error: BaseException) -> JournalError:
    """The error of the journal for an error of the database."""
    text = " ".join(str(error).split()) or type(error).__name__
    if is_lost(error):
        return JournalUnavailable(
            f"The journal {address.shown} can't be reached ({text}): is the server running, and is the address right?"
        )
    if isinstance(error, psycopg.errors.DiskFull):
        return JournalUnavailable(f"The disk of the journal {address.shown} is full: free space there and resume.")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return JournalUnavailable(f"The user of the journal {address.shown} may not do this: {text}.")
    return JournalError(f"The journal {address.shown} reports an error: {text}")


def cut(connection: Connection) -> None:
    """End a connection whose peer no longer answers: the statement that waits for it fails at once."""
    with suppress(OSError, psycopg.Error), socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(SHUT_RDWR)


READERS: Final = 4
"""The most connections of a pool."""


def not_open(address: DatabaseAddress) -> JournalUnavailable:
    """The error of a journal that is used before it was opened, or after it was closed."""
    return JournalUnavailable(f"The journal {address.shown} is not open: call open() before using it.")


class ConnectionPool:
    """The connections for everything but the commits of drivers."""

    def __init__(self, address: DatabaseAddress, name: str) -> None:
        self._address, self._name = address, name
        self._pool: AsyncConnectionPool[Connection] | None = None

    async def open(self) -> None:
        """Prepare the pool; it connects when it is used."""
        self._pool = AsyncConnectionPool(
            self._address.url,
            kwargs=settings_of(self._address),
            configure=make_durable,
            min_size=0,
            max_size=READERS,
            timeout=CONNECT_SECONDS,
            open=False,
        )
        await self._pool.open()

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def use(self, work: Work[T]) -> T:
        """Do work with a connection; again if it was lost, as all of them may be after a restart."""
        pool = self._pool
        if pool is None:
            raise not_open(self._address)
        for attempt in range(READERS + 1):
            try:
                async with pool.connection() as connection:
                    return await work(connection)
            except PoolTimeout as error:
                raise await self._refusal(error) from error
            except (psycopg.Error, OSError) as error:
                if attempt == READERS or not is_lost(error):
                    raise journal_error(self._address, error) from error
        raise AssertionError

    async def notify(self, channel: str, payload: str) -> None:

        async def work(connection: Connection) -> None:
            await connection.execute("SELECT pg_notify(%s, %s)", (channel, payload))

        await self.use(work)

    async def _refusal(self, error: PoolTimeout) -> JournalError:
        """The error of a pool that got no connection in time, which does not say why: the server does."""
        try:
            await (await connect(self._address, self._name)).close()
        except (psycopg.Error, OSError) as refusal:
            return journal_error(self._address, refusal)
        return journal_error(self._address, error)


ANNOUNCE_SECONDS: Final = 0.05
"""The least time between two announcements: Postgres serializes the commits of all that notify."""
POLL_SECONDS: Final = 5.0
"""How long a listener waits without a notification before it looks for itself."""
LISTEN_AGAIN_SECONDS: Final = 1.0
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
                await asyncio.sleep(LISTEN_AGAIN_SECONDS)
                with suppress(psycopg.Error, OSError):
                    connection = await self._listen()
                    break
            self._changed.set()  # a notification may have been missed
            self._wake_watchers(list(self._watchers))

    def _wake_watchers(self, run_ids: Collection[str]) -> None:
        for run_id in run_ids:
            for wake in tuple(self._watchers.get(run_id, ())):
                wake()
