"""The runs that clients of `/v1` wait for: who asks the same again finds its run, and who leaves for good ends it.

Such a client can't name its run, and its library repeats a request that timed out. A run is never started twice for one
request, and never goes on for long without anyone who waits for it, unless that was asked for. The id of a run contains
what identifies its request, so that it is found after a restart, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from teamwright.errors import TeamwrightError
from teamwright.runtime.background_tasks import BackgroundTasks
from teamwright.runtime.engine import Engine

LOG = logging.getLogger("teamwright")
RETURN_SECONDS = 60.0
"""How long a run goes on after its last client has left, and is found by the same request."""
MOST_REMEMBERED = 10_000
DIGITS = 32
"""Hexadecimal digits of a digest: 128 bits."""
RUN_ID = re.compile(rf"v1-([0-9a-f]{{{DIGITS}}})-[0-9a-f]{{8}}")
"""The id of a run whose request names no key."""


@dataclass(slots=True, eq=False)
class AwaitedRun:
    """One request and its run. `waiting` counts the clients; `is_kept` says that the run goes on without them.

    `new_id` is the id with which the run is to be started, and `run_id` the one that it has since then.
    """

    identity: str
    is_kept: bool
    new_id: str
    run_id: str = ""
    waiting: int = 0
    is_answered: bool = False
    left_at: float = 0.0
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    ending: anyio.CancelScope | None = None


class AwaitedRuns:
    """Finds runs by what was asked, and ends those that are no longer waited for."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._clock = engine, clock
        self._runs: dict[str, AwaitedRun] = {}
        self._tasks = BackgroundTasks()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """End abandoned runs within this block; when the server stops, they are interrupted like all others."""
        await self._tasks.open()
        try:
            yield
        finally:
            await self._tasks.close()

    def restore(self, run_ids: Iterable[str]) -> None:
        """Let clients find their runs again after a restart: where one asks for the same team and task, as ever."""
        for run_id in run_ids:
            if (found := RUN_ID.fullmatch(run_id)) is not None:
                self._runs[found[1]] = AwaitedRun(found[1], is_kept=True, new_id=run_id, left_at=self._clock())

    def enter(self, identity: str, *, is_kept: bool, is_retry: bool | None) -> AwaitedRun:
        """Let a client wait for the run of its request, which may be one that another request has started.

        `is_retry` says whether the client has sent the request before, where it says so.
        """
        self._forget_old()
        found = self._runs.get(identity)
        if found is None or not _is_same(found, is_retry):
            new_id = f"v1-{identity}-{secrets.token_hex(4)}"
            found = self._runs[identity] = AwaitedRun(identity, is_kept, new_id)
        found.waiting += 1
        if found.ending is not None:
            found.ending.cancel()
        return found

    def leave(self, run: AwaitedRun, *, answered: bool, after: float | None = None) -> None:
        """Let a client go. Without an answer, the run ends `after` some seconds unless someone waits for it again."""
        run.waiting -= 1
        run.is_answered = run.is_answered or answered
        run.left_at = self._clock()
        if not run.run_id and not run.waiting:
            self._forget(run)
        elif not run.waiting and not run.is_answered and not run.is_kept and self._tasks.is_open:
            run.ending = anyio.CancelScope()
            self._tasks.group().start_soon(self._end, run, run.ending, RETURN_SECONDS if after is None else after)

    async def _end(self, run: AwaitedRun, scope: anyio.CancelScope, after: float) -> None:
        with scope:
            await anyio.sleep(after)
            self._forget(run)
            try:
                found = await self._engine.runs.find(run.run_id)
                if found is not None and found.status != "paused":  # a person may be about to answer
                    await self._engine.runs.cancel(run.run_id, "its client has left", wait=False)
            except TeamwrightError as error:  # it has ended
                LOG.debug("run %s is not ended: %s", run.run_id, error)

    def _forget(self, run: AwaitedRun) -> None:
        if self._runs.get(run.identity) is run:
            del self._runs[run.identity]

    def _forget_old(self) -> None:
        """Forget runs that no client came back to, in the order in which they were asked for."""
        now = self._clock()
        while self._runs:
            oldest = next(iter(self._runs.values()))
            is_old = not oldest.waiting and now - oldest.left_at > RETURN_SECONDS
            if not is_old and len(self._runs) <= MOST_REMEMBERED:
                return
            self._forget(oldest)


def _is_same(run: AwaitedRun, is_retry: bool | None) -> bool:
    """Whether a request is the earlier one again, and not another one with the same words."""
    if is_retry:
        return True
    if run.is_answered:
        return False
    return not run.waiting or is_retry is None


def identity_of(visitor: str, key: str | None, body: bytes) -> str:
    """Return what makes two requests the same: who sends them, the key that they name, and their body."""
    return _digest(visitor.encode(), b"" if key is None else b"key:" + key.encode(), body)


def run_id_of(visitor: str, key: str) -> str:
    """Return the id of the run of a request that names a key: the same one after a restart, too.

    A request with the same key and another body finds a run with another task, and is refused.
    """
    return f"v1-{_digest(visitor.encode(), key.encode())}"


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:DIGITS]
