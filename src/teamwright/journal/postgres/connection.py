"""Connections to the database: their settings, and what their errors mean."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from typing import Final, LiteralString, Protocol, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from teamwright.errors import JournalError, JournalUnavailable
from teamwright.journal.postgres.address import DatabaseAddress

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
COMMIT_SECONDS: Final = 15.0
"""How long a statement of a driver may take before its connection counts as lost."""
SILENCE_SECONDS: Final = 30
"""The server ends a driver's session, and with it its locks, that was silent for so long."""
HEARTBEAT_SECONDS: Final = 8.0

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


async def connect(address: DatabaseAddress, name: str = "teamwright", *, drives: bool = False) -> Connection:
    """Open a connection, under this name; a driver's session ends after `SILENCE_SECONDS` without a statement."""
    settings = settings_of(address, name)
    connection = await AsyncConnection.connect(address.url, **settings)  # pyright: ignore[reportArgumentType]
    try:
        check_version(address, connection.info.server_version)
        await make_durable(connection)
        if drives:
            await connection.execute("SELECT set_config('idle_session_timeout', %s, false)", (f"{SILENCE_SECONDS}s",))
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
