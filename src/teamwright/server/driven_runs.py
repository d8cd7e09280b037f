"""The runs that a server drives. Their records say so: a server is the driver of what it starts, forks or resumes.

After a restart, also after a crash, it resumes those that were interrupted, and paused ones that were answered
meanwhile. One server uses a journal at a time. Runs that other programs drive are never taken over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from teamwright.errors import NotResumable, RunIsLive, TeamwrightError, UsageError
from teamwright.runtime.background_tasks import BackgroundTasks
from teamwright.runtime.driver.driver_lock import driver_lock
from teamwright.runtime.driver.run_id import new_run_id, process_name
from teamwright.runtime.engine import Engine
from teamwright.values.text.secret_patterns import mask_text
from teamwright.values.turns.results import RunSummary

if TYPE_CHECKING:
    from teamwright.runtime.handle import Handle
    from teamwright.teams.team import Team
    from teamwright.values.limits import Limits
    from teamwright.values.turns.messages import Message
    from teamwright.values.turns.results import RunResult

LOG = logging.getLogger("teamwright")
LOCK = "!server"
"""The name of the lock that keeps a second server off the journal; no run can have it."""
DRIVER = "server@"
"""What the name of a server as a driver begins with; the name of a worker can't contain it."""
RESUMED_INTERVAL = 0.05
"""Seconds between two looks at a run that is about to be resumed."""


class DrivenRuns:
    """Starts and resumes runs for clients, and keeps track of them. Its engine drives them under a server's name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        engine.driver = DRIVER + process_name()
        self._driven: dict[str, Handle | None] = {}
        """The runs that this server drives, or is about to: those have no handle yet."""
        self._tasks = BackgroundTasks()

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._driven

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Sequence[str]]:
        """Drive runs within this block; at its end they are interrupted, and resumed when it is entered again.

        Yields the ids of the runs that the server before this one left, the newest first.
        """
        try:
            lock = driver_lock(self._engine.journal, LOCK)
            await lock.__aenter__()
        except RunIsLive:
            raise UsageError("Another server uses this journal; stop it, or name another with --journal.") from None
        try:
            left = [one for one in await self._engine.journal.open_runs() if _is_left(one)]
            self._driven.update((one.id, None) for one in left if one.status == "interrupted")
            await self._tasks.open()
            self._tasks.group().start_soon(self._resume_all, left)
            yield [one.id for one in left]
        finally:
            await self._tasks.close()
            await lock.__aexit__(None, None, None)

    async def start(
        self,
        team: Team,
        task: str,
        *,
        run_id: str | None = None,
        history: Sequence[Message] = (),
        continues: str | None = None,
        conversation: str | None = None,
        limits: Limits | None = None,
        budget: str | None = None,
    ) -> Handle:
        """Start a run, which this server drives from now on; with the id of a run that exists, nothing is started."""
        identity = run_id or new_run_id(time.time())
        starting = self._engine.start(
            team,
            task,
            run_id=identity,
            history=history,
            continues=continues,
            conversation=conversation,
            limits=limits,
            budget=budget,
        )
        return await self._drive(identity, starting)

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

    async def wait(self, run_id: str) -> RunResult:
        """Wait until a run has ended or paused; one that this server is about to resume counts as driven."""
        while True:
            result = await self._engine.runs.wait(run_id)
            if result.status != "interrupted" or run_id not in self:
                return result
            await anyio.sleep(RESUMED_INTERVAL)

    async def resume_if_paused(self, run_id: str) -> bool:
        """Resume a run of this server that paused, now that it is answered; returns whether it was resumed."""
        found = await self._engine.runs.find(run_id)
        if found is None or found.status != "paused" or not found.driver.startswith(DRIVER):
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

    async def _wait(self, handle: Handle) -> None:
        """Wait for the end of a run; when the server stops, the run is interrupted."""
        try:
            await handle.result()
        except TeamwrightError as error:
            LOG.warning("run %s stopped: %s", handle.run_id, mask_text(str(error)))
        except Exception:
            LOG.exception("run %s stopped", handle.run_id)
        finally:
            if self._driven.get(handle.run_id) is handle:
                del self._driven[handle.run_id]


def _is_left(run: RunSummary) -> bool:
    """Whether a server left this run, which is open: it was the last to drive it. A queued run waits for a worker."""
    return run.driver.startswith(DRIVER) and run.damage is None and not run.parent and run.status != "queued"
