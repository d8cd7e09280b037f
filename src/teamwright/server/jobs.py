"""Computations for clients in other processes: few, so that runs keep the machine, each ended with its client.

A visitor has one computation at a time, for as long as its role allows. A process is `python -m teamwright.server.jobs
FOLDER…`, and is kept for the next request: it reads one request per line and answers each with a line, both JSON. It
ends with its server, which also ends it where a request takes too long or its client has left. What loaded code prints
goes nowhere. One of the jobs is the difference of two long plans.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

import anyio
from pydantic import JsonValue

from teamwright.errors import TeamwrightError
from teamwright.server.credentials import Role, Visitor
from teamwright.server.error_statuses import RefusedRequest, refusal_of
from teamwright.server.team_catalogue import Catalogue
from teamwright.strategies.plan.plan_change import plan_text

PROCESSES = 2
"""How many requests are computed at once; the others wait."""
CEILINGS: Mapping[Role, float] = {"read": 20.0, "answer": 20.0, "run": 120.0, "admin": 600.0}
"""The most seconds that a computation takes for a visitor with this role."""
LONGEST_LINE = 64 * 1024 * 1024
IDLE_SECONDS = 120.0
"""How long a process is kept that has nothing to do."""
PARENT_SECONDS = 1.0
"""How often a process looks whether its server is still there."""
NICENESS = 3
"""The server comes first, but a busy machine must not starve the jobs."""
Options = dict[str, Any]
Job = Callable[[Catalogue, Options], JsonValue]


class JobPool:
    """Computes in other processes, which know the teams in some folders."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [str(folder.resolve()) for folder in folders]
        self._limiter = anyio.CapacityLimiter(PROCESSES)
        self._visitors: dict[str, anyio.Lock] = {}
        self._idle: list[tuple[asyncio.subprocess.Process, asyncio.TimerHandle]] = []

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Compute within this block."""
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                while self._idle:
                    process, timer = self._idle.pop()
                    timer.cancel()
                    await _end(process)

    async def compute(self, visitor: Visitor, job: str, options: Mapping[str, JsonValue]) -> JsonValue:
        """Return the result of a job, `module:function`; raises `RefusedRequest`. Cancelled, its process ends."""
        async with self._turn(visitor.name), self._limiter:
            process = await self._process()
            seconds, is_done = CEILINGS[visitor.role], False
            try:
                with anyio.fail_after(seconds):
                    answer = await _ask(process, {"job": job, "options": dict(options)})
                is_done = True
            except TimeoutError:
                raise RefusedRequest(
                    400,
                    "too_long",
                    f"it takes more than {seconds:g} seconds, the most for the role {visitor.role!r}: ask for less",
                ) from None
            finally:
                with anyio.CancelScope(shield=True):
                    await self._release(process) if is_done else await _end(process)
        if "refused" in answer:
            status, code, message = cast("tuple[int, str, str]", answer["refused"])
            raise RefusedRequest(status, code, message)
        return answer["result"]

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncGenerator[None]:
        """Let the requests of one visitor wait for each other, so that no visitor takes all processes."""
        lock = self._visitors.setdefault(name, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and not lock.statistics().tasks_waiting:
                self._visitors.pop(name, None)

    async def _process(self) -> asyncio.subprocess.Process:
        while self._idle:
            process, timer = self._idle.pop()
            timer.cancel()
            if process.returncode is None:
                return process
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "teamwright.server.jobs",
            *self._folders,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LONGEST_LINE,
        )

    async def _release(self, process: asyncio.subprocess.Process) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(IDLE_SECONDS, self._close_idle, process)
        self._idle.append((process, timer))

    def _close_idle(self, process: asyncio.subprocess.Process) -> None:
        self._idle = [one for one in self._idle if one[0] is not process]
        if process.returncode is None:
            process.kill()


async def _ask(process: asyncio.subprocess.Process, request: dict[str, JsonValue]) -> dict[str, JsonValue]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        return json.loads(line)
    except (OSError, ValueError):  # it died, or its answer is too large
        raise RefusedRequest(500, "internal", "the computation ended without a result") from None


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def answer(catalogue: Catalogue, line: str) -> dict[str, JsonValue]:
    """Return the result of a request, or why it is refused."""
    request = json.loads(line)
    try:
        job = cast("Job", resolve_name(request["job"]))
        return {"result": job(catalogue, request["options"])}
    except RefusedRequest as refusal:
        return {"refused": [refusal.status, refusal.code, str(refusal)]}
    except TeamwrightError as error:
        refusal = refusal_of(error)
        return {"refused": [refusal.status, refusal.code, str(refusal)]}


def main() -> None:
    """Answer requests until there are no more."""
    with suppress(OSError):
        os.nice(NICENESS)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    catalogue = Catalogue([Path(one) for one in sys.argv[1:]])
    for line in sys.stdin:
        answers.write(json.dumps(answer(catalogue, line)) + "\n")
        answers.flush()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


FEW_LINES = 400
"""Plans with fewer lines are compared at once, longer ones in another process."""
PLAN_DIFFERENCE = "teamwright.server.jobs:difference_job"


def lines_of(plan: JsonValue) -> list[str]:
    """Return a plan as lines of JSON."""
    return plan_text(plan).splitlines()


def difference(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the difference of two plans as a unified diff."""
    return list(difflib.unified_diff(before, after, "plan", "edited", lineterm="", n=2))


def difference_job(_: object, options: dict[str, list[str]]) -> JsonValue:
    """Return the difference of two plans for a process that does jobs of the server."""
    return [*difference(options["before"], options["after"])]


if __name__ == "__main__":
    main()
