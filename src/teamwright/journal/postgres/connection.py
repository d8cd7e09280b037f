"""Connections to the database: their settings, and what their errors mean."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from typing import Final, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from teamwright.errors import JournalError, JournalUnavailable
from teamwright.journal.postgres.address import DatabaseAddress

T = TypeVar("T")
Connection = AsyncConnection[TupleRow]
Work = Callable[[Connection], Awaitable[T]]
"""Something to do with a connection."""

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


async def connect(address: DatabaseAddress, name: str = "teamwright", *, silence: int | None = None) -> Connection:
    """Open a connection, under this name; the server ends it after `silence` seconds without a statement."""
    connection = await AsyncConnection.connect(address.url, **settings_of(address, name))  # pyright: ignore[reportArgumentType]
    if silence is not None:
        await connection.execute(f"SET idle_session_timeout = '{silence}s'".encode())
    return connection


def is_lost(error: BaseException) -> bool:
    """Whether an error says that the connection, not the statement, has failed; the statement may have succeeded."""
    if isinstance(error, TimeoutError | psycopg.InterfaceError):
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
    except (psycopg.Error, TimeoutError, OSError) as error:
        raise journal_error(address, error) from error


def journal_error(address: DatabaseAddress, error: BaseException) -> JournalError:
    """The error of the journal for an error of the database."""
    text = " ".join(str(error).split()) or type(error).__name__
    if is_lost(error) or isinstance(error, OSError):
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
