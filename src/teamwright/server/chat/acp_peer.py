"""The editor at the other end of stdin and stdout: messages of JSON-RPC, one on each line.

Requests of the editor are answered beside each other, so that one that takes long never holds up its cancellation. What
teams print goes to stderr, since stdout belongs to the protocol.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.agents.acp_connection import LONGEST_LINE, METHOD_NOT_FOUND, Incoming, Json, read_message
from teamwright.errors import TeamwrightError
from teamwright.values.text.secrets import mask_text

PARSE_ERROR, INVALID_REQUEST, INTERNAL = -32700, -32600, -32603


class RefusedCall(TeamwrightError):
    """A request of the editor is refused, with a code of the protocol."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


class Methods(Protocol):
    """What answers the editor."""

    async def answer(self, method: str, params: Json) -> JsonValue:
        """Return the result of a request; raises `RefusedCall` for one that is not offered."""
        ...

    async def note(self, method: str, params: Json) -> None:
        """Take a notification; one that is not known is left out."""
        ...


class Peer:
    """The connection to one editor."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0
        self._asked: dict[int | str, asyncio.Future[Json]] = {}

    async def serve(self, methods: Methods) -> None:
        """Answer the editor until it closes its end; what is at work then is cancelled."""
        async with anyio.create_task_group() as tasks:
            while line := await self._line():
                message = read_message(line)
                if message is None:
                    if line.strip():
                        await self._refuse(None, PARSE_ERROR, "this line is no message of JSON-RPC")
                elif message.is_request:
                    tasks.start_soon(self._answer, methods, message)
                elif message.method:
                    await methods.note(message.method, message.params)
                else:
                    self._resolve(message)
            tasks.cancel_scope.cancel()

    async def _line(self) -> bytes:
        """Return the next line; nothing at the end, and after a line that is too long."""
        try:
            return await self._reader.readline()
        except ValueError:
            await self._refuse(None, PARSE_ERROR, f"a message may have at most {LONGEST_LINE} bytes")
            return b""

    async def _answer(self, methods: Methods, asked: Incoming) -> None:
        try:
            result = await methods.answer(asked.method, asked.params)
        except RefusedCall as error:
            await self._refuse(asked, error.code, mask_text(str(error)))
        except TeamwrightError as error:
            await self._refuse(asked, INTERNAL, mask_text(str(error)))
        else:
            await self._send({"id": asked.id, "result": result})

    def _resolve(self, message: Incoming) -> None:
        future = None if message.id is None else self._asked.pop(message.id, None)
        if future is not None and not future.done():
            future.set_result(message.result if isinstance(message.result, dict) else {})

    async def _refuse(self, asked: Incoming | None, code: int, text: str) -> None:
        error: Json = {"code": code, "message": text}
        await self._send({"id": None if asked is None else asked.id, "error": error})

    async def tell(self, method: str, params: Json) -> None:
        """Send a notification."""
        await self._send({"method": method, "params": params})

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request and return its result, which is empty if the editor refuses it."""
        self._number += 1
        number = self._number
        self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": number, "method": method, "params": params})
            return await self._asked[number]
        finally:
            self._asked.pop(number, None)

    async def _send(self, message: Json) -> None:
        self._writer.write(to_json({"jsonrpc": "2.0", **message}) + b"\n")
        try:
            await self._writer.drain()
        except ConnectionError:  # the editor is gone, which the end of its output says too
            return


def unknown_method(method: str) -> RefusedCall:
    """Return the refusal of a method that is not offered."""
    return RefusedCall(METHOD_NOT_FOUND, f"{method!r} is not offered here")


@asynccontextmanager
async def opened_peer() -> AsyncGenerator[Peer]:
    """Take stdin and stdout for the editor; whatever else prints there prints to stderr."""
    loop = asyncio.get_running_loop()
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    read, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(incoming, "rb", buffering=0)
    )
    write, flow = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(outgoing, "wb", buffering=0)
    )
    try:
        yield Peer(reader, asyncio.StreamWriter(write, flow, None, loop))
    finally:
        read.close()
        write.close()
