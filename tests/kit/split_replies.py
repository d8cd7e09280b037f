"""A proxy before Postgres that delivers replies in small parts, and notices whether an event loop waits for them.

It is a process of its own: libpq that waits for the rest of a reply holds up every thread of its process.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kit.postgres_proxy import Proxy
from tests.paths import ROOT

PATIENCE = 5.0
"""How long an event loop that is not blocked may take for a turn, in seconds."""


class SplitReplies:
    """Delivers the next part of a reply when the event loop of this process could read the one before."""

    def __init__(self, server: str, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._commands: asyncio.StreamWriter | None = None
        self.url = Proxy(server, folder).url
        self.parts = 0
        self.is_blocked = False
        """Whether the event loop took no turn until the rest of a reply was delivered."""

    def split(self, part: int) -> None:
        """From now on, deliver so many bytes at once."""
        assert self._commands is not None
        self._commands.write(b"split %d\n" % part)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the proxy for the duration of the block."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, self._server, str(self._folder), stdin=-1, stdout=-1, cwd=ROOT
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        self._commands = process.stdin
        answering = asyncio.create_task(self._answer(process.stdout, process.stdin))
        try:
            yield
        finally:
            process.stdin.close()
            await process.wait()
            await answering

    async def _answer(self, said: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """Say that the event loop has turned after each part, which it has read in the same turn or before."""
        while line := await said.readline():
            self.parts += line == b"part\n"
            self.is_blocked |= line == b"blocked\n"
            if not answers.is_closing():
                answers.write(b"turned\n")


async def _main(server: str, folder: str) -> None:
    proxy, turned, is_blocked = Proxy(server, Path(folder)), asyncio.Event(), False

    async def pause() -> None:
        nonlocal is_blocked
        if is_blocked:
            return
        turned.clear()
        print("part", flush=True)
        try:
            async with asyncio.timeout(PATIENCE):
                await turned.wait()
        except TimeoutError:
            is_blocked = True
            print("blocked", flush=True)

    proxy.pause = pause
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with proxy.running():
        print("ready", flush=True)
        while command := await commands.readline():
            if command.startswith(b"split"):
                proxy.part = int(command.split()[1])
            else:
                turned.set()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
