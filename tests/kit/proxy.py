"""A proxy before a server on a socket file, which can drop what passes silently, cut connections, or lose a reply."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class SocketProxy:
    """Forwards bytes between clients and the server while `is_open`; what it withholds is never delivered."""

    def __init__(self, target: Path, socket: Path) -> None:
        self._target, self._socket = target, socket
        self._lines: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self.loses_replies = False
        self.part: int | None = None
        """The most bytes of a reply to deliver at once; `pause` follows each part."""
        self.pause: Callable[[], Awaitable[None]] = _no_pause

    @property
    def is_open(self) -> bool:
        return self._passing.is_set()

    def hold(self) -> None:
        """Deliver nothing more, in either direction, without a word."""
        self._passing.clear()

    def release(self) -> None:
        """Deliver again."""
        self._passing.set()

    def cut(self) -> None:
        """Close every connection."""
        for line in list(self._lines):
            line.close()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        server = await asyncio.start_unix_server(self._serve, self._socket)
        try:
            yield
        finally:
            self.release()
            self.cut()
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_unix_connection(str(self._target))
        self._lines |= {writer, ahead}
        try:
            await asyncio.gather(self._pass(reader, ahead, False), self._pass(behind, writer, True))
        finally:
            self._lines -= {writer, ahead}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_reply: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._passing.wait()
                if is_reply and self.loses_replies:
                    self.loses_replies = False
                    self.cut()
                    return
                await self._deliver(data, writer, self.part if is_reply else None)
        writer.close()

    async def _deliver(self, data: bytes, writer: asyncio.StreamWriter, part: int | None) -> None:
        for start in range(0, len(data), part or len(data)):
            writer.write(data[start : start + (part or len(data))])
            await writer.drain()
            if part:
                await self.pause()


async def _no_pause() -> None:
    pass
