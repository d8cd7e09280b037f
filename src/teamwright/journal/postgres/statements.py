"""Prepared statements of the driver's connection, executed by libpq itself.

For each statement psycopg builds a cursor, adapts every parameter and sets up a wait, which takes longer than Postgres
takes for the commit. Here parameters are bytes already, and a reply is one callback of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, ExecStatus

from teamwright.journal.postgres.connection import Connection

_SUCCESS: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)

Finished = Callable[[psycopg.Error | None], None]
"""Called when a statement has ended, with its error if it has failed."""


class Statement(NamedTuple):
    """A statement with its parameters; a format is 0 for text and 1 for the bytes of a text column as they are.

    A text parameter ends at a NUL, so each text that others wrote is sent as bytes: Postgres rejects a NUL there.
    """

    text: str
    parameters: Sequence[bytes | None]
    formats: Sequence[int]


class PreparedStatements:
    """The prepared statements of one connection. One is executed at a time."""

    def __init__(self, connection: Connection) -> None:
        self._line = connection.pgconn
        self._names: dict[str, bytes] = {}
        self._finished: Finished | None = None
        self._failure: psycopg.Error | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket = -1

    def is_prepared(self, statement: Statement) -> bool:
        """Whether `start` can execute this statement: it was executed before."""
        return statement.text in self._names

    async def execute(self, statement: Statement) -> None:
        """Execute a statement, which is prepared first if it is new; its rows are not returned."""
        try:
            name = self._names.get(statement.text)
            if name is None:
                name = b"teamwright_%d" % len(self._names)
                self._line.send_prepare(name, statement.text.encode())
                await self._reply()
                self._names[statement.text] = name
            self._line.send_query_prepared(name, statement.parameters, statement.formats)
            await self._reply()
        finally:
            self.release()

    def start(self, statement: Statement, finished: Finished) -> None:
        """Send a statement that is prepared, and call `finished` when it has ended."""
        self._line.send_query_prepared(self._names[statement.text], statement.parameters, statement.formats)
        self._wait(finished)

    def release(self) -> None:
        """Leave the socket to psycopg, which is about to use the connection."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._loop = None

    async def _reply(self) -> None:
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finished(error: psycopg.Error | None) -> None:
            if not reply.done():
                reply.set_result(None) if error is None else reply.set_exception(error)

        self._wait(finished)
        try:
            await reply
        except asyncio.CancelledError:
            self._break()  # what the server still sends would be taken for the reply to another statement
            raise

    def _wait(self, finished: Finished) -> None:
        """Watch the socket. It stays watched after the reply, because most statements are followed by another one."""
        self._finished = finished
        if self._loop is None:
            self._loop, self._socket = asyncio.get_running_loop(), self._line.socket
            self._loop.add_reader(self._socket, self._receive)
        if self._flush():
            self._loop.add_writer(self._socket, self._send)

    def _send(self) -> None:
        """Send more of what is to be sent."""
        if not self._flush() and self._loop is not None:
            self._loop.remove_writer(self._socket)

    def _flush(self) -> bool:
        """Send what the socket takes; return whether there is more to send."""
        try:
            return self._line.flush() > 0
        except psycopg.Error as error:
            self._end(error)
            return False

    def _receive(self) -> None:
        """Read what the server has sent; it ends the statement if the reply is complete."""
        line = self._line
        if self._finished is None:  # nothing was asked: the server has ended the session, which the next use notices
            self.release()
            return
        try:
            line.consume_input()
            while True:
                if line.is_busy():  # reading on would block: the rest of the reply is still to come
                    return
                if (result := line.get_result()) is None:
                    break
                if result.status not in _SUCCESS:
                    self._failure = self._failure or errors.error_from_result(result)
            if self._failure is not None and line.status == ConnStatus.BAD:
                raise psycopg.OperationalError(str(self._failure))
        except psycopg.Error as error:
            self._end(error)
            return
        finished, self._finished = self._finished, None
        failure, self._failure = self._failure, None
        finished(failure)

    def _end(self, error: psycopg.Error) -> None:
        """Report that the connection has failed."""
        finished = self._finished
        self._break()
        if finished is not None:
            finished(error)

    def _break(self) -> None:
        self._finished = self._failure = None
        self.release()
        self._line.finish()
