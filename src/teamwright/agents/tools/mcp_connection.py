"""A connection to an MCP server (extra `mcp`), and how one starts as a process.

A server starts at its first use, is shared by concurrent turns, and is restarted after a crash. It gets no variable
that is not listed here or named by its declaration, so that no key of ours reaches it. Only the modules named after
MCP may import `mcp`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import anyio
from pydantic import ValidationError

from teamwright.agents.functions.threads import finish
from teamwright.agents.sandbox import environment
from teamwright.agents.sandbox_back_ends import find_sandbox
from teamwright.errors import AgentError, CallInDoubt, ServiceError, ToolError
from teamwright.values.specs.tools import McpTool, sandbox_settings

if TYPE_CHECKING:
    from mcp import Client, StdioServerParameters
    from mcp.client.session import ClientRequestContext
    from mcp.types import ElicitRequestParams, ErrorData


INHERITED_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
"""Variables that a server inherits besides those of the library: `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `USER`."""


class ServerNotStarted(ToolError):
    """The command of a server, or the folder in which it starts, is not there; a retry would not help."""

    def __init__(self, label: str, why: str) -> None:
        super().__init__(f"The MCP server {label!r} can't be started: {why}.")


def server_parameters(settings: McpTool) -> StdioServerParameters:
    """Return the command of a server with its arguments, folder and variables."""
    from mcp import StdioServerParameters

    program, *arguments = confined_command(settings)
    return StdioServerParameters(
        command=program, args=arguments, env=server_variables(settings, os.environ), cwd=settings.folder
    )


def confined_command(settings: McpTool) -> list[str]:
    """Return the command of a server with its arguments, in its sandbox if it has one."""
    program, *arguments = settings.command or ("",)
    command = [_program(program, settings), *arguments]
    if settings.sandbox is None:
        return command
    sandbox = sandbox_settings(settings.sandbox)
    return find_sandbox(sandbox).confined(command, Path(settings.folder or ".").resolve(), sandbox)


def server_variables(settings: McpTool, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the server besides those that the library passes on."""
    inherited = {name: environ[name] for name in INHERITED_VARIABLES if name in environ}
    if settings.sandbox is not None:
        inherited |= environment(sandbox_settings(settings.sandbox), environ)
    return {**inherited, **settings.env}


def missing_folder(settings: McpTool) -> str | None:
    """Return what to say about the folder in which a server starts, if it is not there."""
    if settings.folder is None or Path(settings.folder).is_dir():
        return None
    return f"there is no folder {settings.folder!r}; check its  folder"


def _program(command: str, settings: McpTool) -> str:
    """Return the program; one with a relative path is relative to `folder`."""
    if settings.folder is None or Path(command).name == command:
        return command
    return str(Path(settings.folder) / command)


T = TypeVar("T")

START_SECONDS = 120.0
"""How long a server may take to answer for the first time: `npx` and `uvx` may have to install it."""
IDLE_SECONDS = 300.0
"""How long a stream may stay silent: a server sends nothing while it works on a call."""
RESULT_FACTOR = 4
"""How much larger than its result a response may be: it contains the result twice."""
LONGEST_STDERR = 1 << 20
"""How much of a server's error output is kept on disk."""
STDERR_TAIL = 4096
CLOSED_MESSAGE = "Connection closed"
"""The library's message for a connection that ended."""
FORGOTTEN_SESSION = "Session terminated"
"""The library's message for an HTTP session that the server does not know, as after its restart."""


class McpConnection:
    """One server. It starts at the first request; after a crash, the next request starts it again."""

    def __init__(self, settings: McpTool, max_bytes: int) -> None:
        self._settings, self._max_bytes = settings, max_bytes
        self._session: McpSession | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def request(self, label: str, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request and return its result; `label` is the name of the server in messages.

        Raises `CallInDoubt` if the server ends before it has answered, and `ToolError` if it answers with an error or
        with what is no answer.
        """
        try:
            return await self._send(label, send)
        except ForgottenSession:  # the server refused the request, so it is safe to send it again
            return await self._send(label, send)

    async def _send(self, label: str, send: Callable[[Client], Awaitable[T]]) -> T:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        session = self._open_session()
        client = await session.client(label)
        try:
            return await send(client)
        except ValidationError as error:
            places = dict.fromkeys(".".join(map(str, one["loc"])) for one in error.errors(include_url=False))
            raise ToolError(f"its answer does not fit the protocol at {', '.join(map(repr, places))}") from error
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            # Servers use the code of a closed connection for errors of their own as well.
            if isinstance(error, MCPError) and (error.code, error.message) != (CONNECTION_CLOSED, CLOSED_MESSAGE):
                if error.message != FORGOTTEN_SESSION:
                    raise ToolError(error.message) from error
                self._end(session)
                raise ForgottenSession(error.message) from error
            self._end(session)
            reason = session.stderr_tail()
            raise CallInDoubt(
                f"The MCP server {label!r} ended during the call{f' ({reason})' if reason else ''}; whether the call"
                " took effect is unknown."
            ) from error

    def _open_session(self) -> McpSession:
        """Return the running session, or begin to start one. Nothing is awaited, so concurrent callers share it."""
        if self._session is None or self._session.task.done():
            self._session = McpSession(self._settings, self._max_bytes)
        return self._session

    def _end(self, session: McpSession) -> None:
        """Stop a session in the background; `close` waits for its end."""
        session.stop()
        self._ending.add(session.task)
        session.task.add_done_callback(self._ending.discard)
        if self._session is session:
            self._session = None

    async def close(self) -> None:
        """Stop the server and wait until its process has ended, also if the caller is cancelled."""
        if self._session is not None:
            self._end(self._session)
        if self._ending:
            await finish(asyncio.wait(tuple(self._ending)))


class ForgottenSession(ToolError):
    """The server does not know the HTTP session, and did not act on the request."""


class McpSession:
    """One process or HTTP session of a server, held open by a task of its own until `stop`.

    The connection has cancel scopes, so one task must open and close it, and no turn may own it.
    """

    def __init__(self, settings: McpTool, max_bytes: int) -> None:
        from tempfile import TemporaryFile  # every engine loads this module, and few start a server

        self._settings, self._max_bytes = settings, max_bytes
        self._ready, self._stopped = asyncio.Event(), asyncio.Event()
        self._client: Client | None = None
        self._error: Exception | None = None
        self._stderr: TextIO = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by the task
        self._last_line = ""
        self.task = asyncio.create_task(self._hold())

    async def client(self, label: str) -> Client:
        """Wait until the server has started; raises `ServerNotStarted` or `ServiceError` if it does not."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            self.stop()
            raise ServiceError(f"The MCP server {label!r} did not answer within {START_SECONDS:g} s.") from None
        if self._client is None:
            raise self._start_failure(label) from self._error
        self._trim_stderr()
        return self._client

    def stop(self) -> None:
        """Begin to stop the server: its input is closed, and a process that goes on is killed."""
        self._stopped.set()
        if not self._ready.is_set():
            self.task.cancel()

    def stderr_tail(self) -> str:
        """Return the last line that the server wrote to its error output."""
        if self._stderr.closed:
            return self._last_line
        self._stderr.seek(max(0, os.fstat(self._stderr.fileno()).st_size - STDERR_TAIL))
        lines = self._stderr.read().replace("\0", "").strip().splitlines()
        return lines[-1].strip() if lines else ""

    async def _hold(self) -> None:
        """Connect, and stay connected until `stop` or until the server ends."""
        try:
            async with AsyncExitStack() as stack:
                self._client = await stack.enter_async_context(await self._connect(stack))
                _declare_people(self._client)
                self._ready.set()
                await self._stopped.wait()
        except Exception as error:  # noqa: BLE001 - fails the requests that wait for the server, and nothing else
            self._error = error
        finally:
            self._last_line = self.stderr_tail()
            self._stderr.close()
            self._ready.set()

    async def _connect(self, stack: AsyncExitStack) -> Client:
        from mcp import Client, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        from teamwright.agents.clients.http_transport import GuardedTransport, ReadBounds, guarded_client

        # A program that does not configure logging would print a traceback for each line that is no message.
        if not (log := logging.getLogger("mcp")).handlers:
            log.addHandler(logging.NullHandler())
        settings = self._settings
        if settings.url is not None:
            bounds = ReadBounds(IDLE_SECONDS, RESULT_FACTOR * self._max_bytes)
            http = guarded_client(GuardedTransport(bounds=bounds, streams_end=False), settings.headers, IDLE_SECONDS)
            await stack.enter_async_context(http)
            return Client(streamable_http_client(settings.url, http_client=http))
        return Client(stdio_client(server_parameters(settings), errlog=self._stderr))

    def _trim_stderr(self) -> None:
        """Discard the error output of a server that writes much of it."""
        if not self._stderr.closed and os.fstat(self._stderr.fileno()).st_size > LONGEST_STDERR:
            os.ftruncate(self._stderr.fileno(), 0)

    def _start_failure(self, label: str) -> AgentError:
        error = self._error
        reason = self.stderr_tail() or (f"{type(error).__name__}: {error}" if error is not None else "it was stopped")
        command = self._settings.command
        if isinstance(error, OSError) and command is not None:
            absent = f"there is no command {command[0]!r}; check it, or install it"
            found = absent if isinstance(error, FileNotFoundError) else error.strerror or reason
            return ServerNotStarted(label, missing_folder(self._settings) or found)
        return ServiceError(f"The MCP server {label!r} did not answer ({reason}).")


def _declare_people(client: Client) -> None:
    """Declare that people answer what a server asks, to servers that ask in the result of a call.

    Those of earlier revisions ask while the call waits, which no person does: the library declares it to all of them.
    """
    session = client.session
    if (discovered := session.discover_result) is not None:
        session._elicitation_callback = _not_called  # pyright: ignore[reportPrivateUsage]
        session.adopt(discovered)


async def _not_called(context: ClientRequestContext, params: ElicitRequestParams) -> ErrorData:
    del context, params  # which the library names
    from mcp.types import INVALID_REQUEST, ErrorData

    return ErrorData(code=INVALID_REQUEST, message="ask in the result of the call")
