"""Stands before the application and kills it (`kill -9`) whenever it has answered a call with a task.

The answer reaches the client after a new process has taken over the journal, so that every `tasks/get` asks a server
that has never seen the call. Run as a program, it prints its address.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen

import anyio
import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from teamwright.server.app import listen
from tests.kit.server import NO_CERTIFICATES
from tests.paths import ROOT

DROPPED = frozenset(("host", "content-length", "transfer-encoding", "connection", "content-encoding"))
CREATED = b'"resultType":"task"'


class KilledServer:
    """The application in a process of its own, which is forked from one that has imported everything.

    The suite waits some seconds for an answer, and the import may take as long on a busy machine.
    """

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.server.mcp.conformance.app", str(folder), "--forks"]
        self._parent = Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT)
        self.kills = 0
        self._process, self.url = self._start()

    def _start(self) -> tuple[int, str]:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write("start\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline()), self._parent.stdout.readline().strip()

    def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        with suppress(ProcessLookupError):
            while True:
                os.kill(self._process, signal.SIGKILL)
                time.sleep(0.005)

    def end(self) -> None:
        """End both processes."""
        self.kill()
        self._parent.communicate()

    def replace(self) -> None:
        """Kill the process and start another over the same journal."""
        self.kill()
        self.kills += 1
        self._process, self.url = self._start()


def proxy(server: KilledServer, http: httpx2.AsyncClient) -> Starlette:
    """Return the application that passes requests on."""
    one_at_a_time = anyio.Lock()

    async def passed(request: Request) -> Response:
        async with one_at_a_time:
            headers = {name: value for name, value in request.headers.items() if name not in DROPPED}
            answer = await http.request(request.method, server.url, headers=headers, content=await request.body())
            if CREATED in answer.content:
                await anyio.to_thread.run_sync(server.replace)
        kept = {name: value for name, value in answer.headers.items() if name not in DROPPED}
        return Response(answer.content, answer.status_code, kept)

    return Starlette(routes=[Route("/mcp", passed, methods=["GET", "POST", "DELETE"])])


class Front(uvicorn.Server):
    """Ends without raising the signal again, so that it can end the application too."""

    @override
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at SIGTERM."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.handle_exit, signal.SIGTERM, None)
        yield


async def serve(folder: Path) -> None:
    """Serve until this process ends."""
    server = KilledServer(folder)
    listener = listen("127.0.0.1", 0)
    try:
        async with httpx2.AsyncClient(timeout=60, verify=NO_CERTIFICATES) as http:
            print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
            await Front(uvicorn.Config(proxy(server, http), log_level="warning", lifespan="off")).serve([listener])
    finally:
        server.end()
        print(f"killed {server.kills} times", file=sys.stderr)


if __name__ == "__main__":
    anyio.run(serve, Path(sys.argv[1]))
