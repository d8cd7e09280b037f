"""The runs that a server drives, and those of them that clients of `/v1` wait for.

The record of a run says that a server drives it. After a restart, also after a crash, the server resumes those that
were interrupted, and paused ones that were answered meanwhile; one that would not resume with today's code is named and
stays as it is. It also resumes those that paused until their provider
takes calls again, at that time. Runs that other programs drive are never taken over.
One server uses a journal at a time. Servers over stdio, one for each client, may be there besides: they resume what
such servers left and nothing else, and the server does so too.

A client of `/v1` can't name its run: the id contains what identifies the request, so that a repeated request finds its
run. A run for which no client waits any more ends, unless it is to go on.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from teamwright.errors import NotResumable, RunIsLive, TeamwrightError, UsageError
from teamwright.journal.protocol import driver_lock
from teamwright.runtime.engine import Engine
from teamwright.runtime.run_request import new_run_id, process_name
from teamwright.runtime.tasks import BackgroundTasks
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.results import RunSummary, seconds_until

if TYPE_CHECKING:
    from teamwright.runtime.handle import Handle
    from teamwright.runtime.run_request import RunRequest
    from teamwright.values.limits import Limits
    from teamwright.values.turns.results import RunResult


LOG = logging.getLogger("teamwright")
LOCK = "!server"
"""The name of the lock that keeps a second server off the journal; no run can have it."""
DRIVER, STDIO_DRIVER = "server@", "mcp@"
"""What the names of a server and of a server over stdio begin with as drivers; no worker has such a name."""
CHECK_SECONDS = 10.0
"""How long a server that starts looks whether its paused runs would resume. The others are found when they resume."""
LONGEST_SLEEP = 60.0
"""Seconds after which the clock is looked at again, while paused runs wait for a time."""
RESUMED_INTERVAL = 0.05
"""Seconds between two looks at a run that is about to be resumed."""
RETURN_SECONDS = 60.0
"""How long a run goes on after its last client has left, and is found by the same request."""
MOST_REMEMBERED = 10_000
DIGITS = 32
"""Hexadecimal digits of a digest: 128 bits."""
RUN_ID = re.compile(rf"v1-([0-9a-f]{{{DIGITS}}})-[0-9a-f]{{8}}")
"""The id of a run whose request names no key."""


class DrivenRuns:
    """Starts and resumes runs for clients, and keeps track of them. Its engine drives them under a server's name."""

    def __init__(self, engine: Engine, *, over_stdio: bool = False) -> None:
        self._engine, self._is_alone = engine, not over_stdio
        engine.driver.name = (STDIO_DRIVER if over_stdio else DRIVER) + process_name()
        self._own = (STDIO_DRIVER,) if over_stdio else (DRIVER, STDIO_DRIVER)
        self._driven: dict[str, Handle | None] = {}
        """The runs that this server drives, or is about to: those have no handle yet."""
        self._tasks = BackgroundTasks()
        self._resume_at: dict[str, str] = {}
        """When paused runs go on by themselves."""
        self._has_paused = asyncio.Event()

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._driven

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Sequence[str]]:
        """Drive runs within this block; at its end they are interrupted, and resumed when it is entered again.

        Yields the ids of the runs that the server before this one left, the newest first.
        """
        async with self._locked():
            left = [one for one in await self._engine.journal.open_runs() if self._is_left(one)]
            self._driven.update((one.id, None) for one in left if one.status == "interrupted")
            await self._tasks.open()
            self._resume_at.update((one.id, one.resume_at) for one in left if one.resume_at)
            self._tasks.group().start_soon(self._resume_all, left)
            self._tasks.group().start_soon(self._resume_due)
            self._tasks.group().start_soon(self._check_paused, [one.id for one in left if one.status == "paused"])
            try:
                yield [one.id for one in left]
            finally:
                await self._tasks.close()

    @asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None]:
        """Keep a second server off the journal; servers over stdio are many, one for each of their clients."""
        if not self._is_alone:
            yield
            return
        try:
            lock = driver_lock(self._engine.journal, LOCK)
            await lock.__aenter__()
        except RunIsLive:
            raise UsageError("Another server uses this journal; stop it, or name another with --journal.") from None
        try:
            yield
        finally:
            await lock.__aexit__(None, None, None)

    def _is_left(self, run: RunSummary) -> bool:
        """Whether a server left this open run: it was the last to drive it. A queued run waits for a worker."""
        is_own = run.driver.startswith(self._own) and not run.parent
        return is_own and run.damage is None and run.status != "queued"

    async def start(self, asked: RunRequest) -> Handle:
        """Start a run, which this server drives from now on; with the id of a run that exists, nothing is started."""
        identity = asked.run_id or new_run_id(time.time())
        return await self._drive(identity, self._engine.begin(asked, new_id=identity))

    async def fork(
        self,
        run_id: str,
        *,
        at: int | str | None = None,
        retry: bool = False,
        task: str | None = None,
        limits: Limits | None = None,
    ) -> Handle:
        """Start a fork of a run, which this server drives from now on."""
        identity = new_run_id(time.time())
        starting = self._engine.start_fork(run_id, at=at, retry=retry, task=task, new_id=identity, limits=limits)
        return await self._drive(identity, starting)

    async def resume(self, run_id: str) -> Handle:
        """Resume a run, which this server drives from now on; raises `RunIsLive` if it is driven already."""
        return await self._drive(run_id, self._engine.start_resume(run_id))

    def goes_on(self, run: RunSummary | None) -> bool:
        """Whether a run goes on: its record may contain a pause or an interruption that is over, or about to be."""
        return run is not None and (run.status == "running" or (run.status == "interrupted" and run.id in self))

    async def wait(self, run_id: str) -> RunResult:
        """Wait until a run has ended or paused; one that this server is about to resume counts as driven."""
        while True:
            result = await self._engine.runs.wait(run_id)
            if result.status != "interrupted" or run_id not in self:
                return result
            await anyio.sleep(RESUMED_INTERVAL)

    async def resume_if_paused(self, run_id: str) -> bool:
        """Resume a run of a server that paused, now that it can go on; returns whether it was resumed.

        No one drives it, so that the server over stdio that took the answer goes on with it, and the other way round.
        """
        found = await self._engine.runs.find(run_id)
        if found is None or found.status != "paused" or not found.driver.startswith((DRIVER, STDIO_DRIVER)):
            return False
        try:
            await self.resume(run_id)
        except (RunIsLive, NotResumable):
            return False
        return True

    async def _drive(self, run_id: str, starting: Awaitable[Handle]) -> Handle:
        """Start to drive a run. It counts as driven before its first events arrive; one that can't start does not."""
        self._driven.setdefault(run_id, None)
        try:
            handle = await starting
            if handle.drives:
                self._driven[run_id] = handle
                self._tasks.group().start_soon(self._wait, handle)
        finally:
            if self._driven.get(run_id) is None:
                self._driven.pop(run_id, None)
        return handle

    async def _resume_all(self, left: Sequence[RunSummary]) -> None:
        """Resume what this server was driving when it stopped, and paused runs that were answered meanwhile."""
        for one in left:
            try:
                if one.status == "interrupted" or await self._engine.runs.answers(one.id):
                    await self.resume(one.id)
            except TeamwrightError as error:
                LOG.warning("run %s can't be resumed: %s", one.id, mask_text(str(error)))

    async def _check_paused(self, paused: Sequence[str]) -> None:
        """Name the paused runs that would not resume with the code that is here now, before anyone answers them."""
        if not paused:
            return
        from teamwright.testing.resume_check import check_resume

        with anyio.move_on_after(CHECK_SECONDS):
            for run_id in paused:
                if not (found := await check_resume(self._engine.journal, run_id, prompts=False)).passes:
                    LOG.warning("run %s would not resume: %s", run_id, mask_text(found.why))

    async def _resume_due(self) -> None:
        """Resume each paused run once the provider that it waits for takes calls again."""
        while True:
            self._has_paused = asyncio.Event()
            left = {run_id: seconds_until(at, time.time()) for run_id, at in self._resume_at.items()}
            for run_id in [one for one, seconds in left.items() if not seconds]:
                del self._resume_at[run_id], left[run_id]
                try:
                    await self.resume_if_paused(run_id)
                except TeamwrightError as error:
                    LOG.warning("run %s can't be resumed: %s", run_id, mask_text(str(error)))
            with anyio.move_on_after(min([*left.values(), LONGEST_SLEEP])):
                await self._has_paused.wait()

    async def _wait(self, handle: Handle) -> None:
        """Wait for the end of a run; when the server stops, the run is interrupted."""
        try:
            result = await handle.result()
            if result.resume_at:
                self._resume_at[handle.run_id] = result.resume_at
                self._has_paused.set()
        except TeamwrightError as error:
            LOG.warning("run %s stopped: %s", handle.run_id, mask_text(str(error)))
        except Exception:
            LOG.exception("run %s stopped", handle.run_id)
        finally:
            if self._driven.get(handle.run_id) is handle:
                del self._driven[handle.run_id]


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
        self._is_closing = False

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """End abandoned runs within this block; when the server stops, they are interrupted like all others."""
        await self._tasks.open()
        try:
            yield
        finally:
            await self._tasks.close()

    def close(self) -> None:
        """End no run from now on, because the server stops: after the restart, its clients find it again."""
        self._is_closing = True

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
        elif not (run.waiting or run.is_answered or run.is_kept or self._is_closing) and self._tasks.is_open:
            run.ending = anyio.CancelScope()
            self._tasks.group().start_soon(self._end, run, run.ending, RETURN_SECONDS if after is None else after)

    def answered(self, run_id: str) -> None:
        """Let the request of a run be another one from now on: what the run has asked was answered."""
        for run in self._runs.values():
            if run.run_id == run_id:
                run.is_answered = True

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


def run_id_of(visitor: str, key: str, door: str = "v1") -> str:
    """Return the id of the run of a request that names a key: the same one after a restart, too.

    A request with the same key and another body finds a run with another task, and is refused.
    """
    return f"{door}-{_digest(visitor.encode(), key.encode())}"


def digest_of_parts(*parts: str) -> str:
    """Return what identifies texts together, for the id of a run that follows from a request."""
    return _digest(*(part.encode("utf-8", "surrogatepass") for part in parts))


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:DIGITS]
