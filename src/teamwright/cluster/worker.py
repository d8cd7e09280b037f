"""A worker: drives the runs that it claims from a queue, on the journal in Postgres, until it is drained.

The journal says what is recorded and who drives a run; the queue only says who should. A drive that has not ended its
run parks it, until it is due, or until there is something to do for it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib.metadata import version
from typing import Self
from uuid import uuid4

from teamwright.cluster.dbos_queue import QueueRunner
from teamwright.cluster.permissions import Permissions
from teamwright.cluster.placement import WorkerPlacement
from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.queue_database import DEFAULT_QUEUE, QueueEntry, check_own_queue, queue_watch, worker_lock
from teamwright.cluster.run_requirements import CodeFolder
from teamwright.cluster.schedules import Scheduler
from teamwright.cluster.shared_limits import ClusterLimits
from teamwright.cluster.status import ClusterStatus, Happening, Heartbeat, WorkerLog, read_status
from teamwright.cluster.submission import NOTHING, Lacks, TeamLoader, record_pause, record_wait
from teamwright.cluster.take_over import Orphans, Retention, TakeOver, has_arrived
from teamwright.cluster.wing import RUNS_AT_ONCE
from teamwright.errors import (
    EventsLost,
    FencedOut,
    JournalError,
    JournalUnavailable,
    NonDeterminism,
    RunError,
    RunIsLive,
    TeamwrightError,
    UsageError,
)
from teamwright.history.telemetry.exporter import Exporter
from teamwright.history.telemetry.otlp import configured_endpoint
from teamwright.journal.postgres.connection import is_lost
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.handle import Handle
from teamwright.runtime.transport import Traffic
from teamwright.values.names import check_name
from teamwright.values.turns.results import FINAL, RunResult, seconds_until
from teamwright.values.value import JsonValue

RETRY_SECONDS = 30.0
"""How long a run that could not go on here waits before a worker tries it again."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0


class Worker:
    """Drives up to `at_once` runs of one queue at a time. Several workers may have one name."""

    def __init__(
        self,
        journal: PostgresJournal,
        *,
        queue: str = DEFAULT_QUEUE,
        at_once: int = RUNS_AT_ONCE,
        name: str = "",
        code: Sequence[CodeFolder] = (),
        allow: Permissions = NOTHING,
        retain: float | None = None,
        report: WorkerLog,
    ) -> None:
        """Make a worker; runs that ended more than `retain` seconds ago are deleted, also those of other workers."""
        if at_once < 1:
            raise UsageError(f"A worker can't drive {at_once} runs at once; use 1 or more.")
        self.name = check_name("worker", name) if name else socket.gethostname()
        self.worker_id = f"{self.name}:{os.getpid()}:{uuid4().hex[:8]}"
        self.queue = check_own_queue(queue)
        self.at_once = at_once
        report.worker = self.worker_id
        self._journal, self._report, self._started = journal, report, time.monotonic()
        self._placement = WorkerPlacement(self.queue)
        self._limits = ClusterLimits(journal.address)
        self._engine = Engine(journal, shared=self._limits, placement=self._placement, otlp=configured_endpoint())
        self._engine.driver.name = f"{self.name}:{os.getpid()}"
        self._client = QueueClient(journal.address)
        queues = (self.queue, self._placement.queue)
        self._runner = QueueRunner(
            self._client.database,
            queues,
            self.worker_id,
            at_once,
            self._work,
            self._waiting,
            lambda: not self._limits.problem,
        )
        self._take_over = TakeOver(journal, self._client, self._claimed, self._tell, self._adopt)
        self._orphans = Orphans(journal, self._client, self._engine.runs.cancel)
        self._heartbeat = Heartbeat(journal, self.worker_id, self._describe, report, lambda: self._limits.problem)
        self._teams = TeamLoader(journal, self._engine.models, code=code, allow=allow)
        self._scheduler = Scheduler(journal, journal.cluster.schedules, self._client.submit, self._tell)
        self._retention = None if retain is None else Retention(journal, retain, self._tell)
        self._claims: dict[str, Handle | None] = {}
        self._queues: dict[str, str] = {}
        self._changed: set[str] = set()
        """Runs whose record differs from what they do with the code of this process: only another one can go on."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_draining = False
        self._stack = AsyncExitStack()

    @property
    def bus(self) -> Bus:
        """Where the events of the runs that it drives are published."""
        return self._engine.bus

    @property
    def exporter(self) -> Exporter | None:
        """What sends its runs to a receiver of traces; `None` without one."""
        return self._engine.driver.exporter

    @property
    def traffic(self) -> Traffic | None:
        """The live signals to and from other processes; `None` without Redis."""
        return self._engine.driver.relay.traffic

    @property
    def is_connected(self) -> bool:
        """Whether the database answers."""
        return self._heartbeat.is_connected

    @property
    def is_ready(self) -> bool:
        """Whether it claims runs: the database answers, and it is not being stopped."""
        return self.is_connected and not self._is_draining

    @property
    def driven(self) -> list[str]:
        """The ids of the runs that this worker drives now."""
        return list(self._claims)

    async def open(self, stopped: asyncio.Event) -> bool:
        """Begin, like `async with`, as soon as the database takes connections; says once for what it waits.

        Returns False if it is stopped before.
        """
        pause, is_told = FIRST_PAUSE, False
        while not stopped.is_set():
            try:
                await self.__aenter__()
                return True
            except JournalUnavailable as error:
                if not _is_lost(error):
                    raise
                if not is_told:
                    self._report("trouble", detail=f"waits for the database: {error}")
                    is_told = True
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stopped.wait()
            pause = min(2 * pause, LONGEST_PAUSE)
        return False

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._engine)
            await self._limits.connect()  # a run that is claimed must be able to call its models
            await stack.enter_async_context(self._journal.drive(worker_lock(self.worker_id)))
            await self._client.open()
            stack.push_async_callback(self._client.close)
            await self._client.queues.register(self.queue)
            await self._client.queues.register(self._placement.queue)
            stack.push_async_callback(self._runner.close)
            self._runner.at_once = self.at_once
            self._runner.launch()
            for queue in (self.queue, self._placement.queue):
                stack.enter_context(self._journal.watching(queue_watch(queue), self._runner.wake))
            stack.push_async_callback(self._heartbeat.leave)  # once nothing shows it any more
            watches = (self._take_over.watch, self._scheduler.watch, self._orphans.watch, self._heartbeat.watch)
            for watch in (*watches, *([] if self._retention is None else [self._retention.watch])):
                stack.push_async_callback(_cancelled, asyncio.create_task(self._keep(watch)))
            await self._heartbeat.show()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def drain(self) -> None:
        """Claim nothing more, let calls in flight finish, and hand all runs back to the queue."""
        self._is_draining = True
        self._runner.at_once = 0
        for run_id, handle in list(self._claims.items()):
            if handle is not None and handle.control is not None:
                handle.control.hand_back(self._queues[run_id])
        self._heartbeat.show_soon()
        await self._idle.wait()

    def interrupt(self) -> None:
        """Stop calls in flight as well; their results are lost."""
        for handle in self._claims.values():
            if handle is not None:
                handle.interrupt()

    async def status(self) -> ClusterStatus:
        """Return the state of the whole cluster; raises `JournalError`."""
        return await read_status(self._journal, self._client)

    def _describe(self) -> dict[str, JsonValue]:
        """What other processes can read about this worker."""
        return {
            "name": self.name,
            "queue": self.queue,
            "state": "draining" if self._is_draining else "ready",
            "at_once": self.at_once,
            "driving": list(self._claims),
            "finished": self._report.finished,
            "version": version("teamwright"),
            "seconds": round(time.monotonic() - self._started),
        }

    def _waiting(self, queue: str) -> int:
        """How many runs of the queue of branches wait for branches of their own, which need room there."""
        if queue != self._placement.queue:
            return 0
        claimed = list(self._queues.items())  # at once, since DBOS asks in its own thread
        return self._placement.waiting([run_id for run_id, own in claimed if own == queue])

    def _claimed(self, run_id: str) -> bool:
        return run_id in self._claims

    def _tell(self, what: Happening, run_id: str = "", detail: str = "") -> None:
        """Report what happens; that the database is away is reported once, and not by each who needs it."""
        if what != "trouble" or not self._heartbeat.is_away:
            self._report(what, run_id, detail)

    async def _keep(self, watch: Callable[[], Awaitable[None]]) -> None:
        """Watch on, also after an unexpected error: without its watches a worker would leave runs undriven."""
        while True:
            try:
                await watch()
            except Exception as error:  # noqa: BLE001 - reported
                self._report("trouble", detail=f"{type(error).__name__}: {error}")
            await asyncio.sleep(1.0)

    async def _adopt(self, entry: QueueEntry) -> bool:
        """Claim a run that waits for what this worker has, if there is room; returns False if this worker lacks it.

        Put back into the queue, the run could be claimed again and again by others that lack the same.
        """
        claimed = list(self._queues.values()).count(entry.queue) + self._runner.wanted(entry.queue)
        if entry.run_id in self._changed:
            return False
        has_room = claimed < self._runner.at_once + self._waiting(entry.queue) and not self._is_draining
        if has_room and entry.queue in (self.queue, self._placement.queue):
            with suppress(RunError, UsageError):  # driving it will tell what is wrong
                if await self._teams.lacks(entry.run_id) is not None:
                    return False
            if (drive := await self._client.enqueue(entry, self.worker_id)) is not None:
                self._runner.want(drive, entry.queue)
        return True

    async def _work(self, run_id: str, queue: str, drive: str) -> bool:
        """Drive a run that was claimed; returns False if the drive was replaced, or must be."""
        if run_id in self._claims:  # this worker lost the run and claimed it again before it noticed
            return await self._settle(lambda: self._client.park(run_id, drive=drive))
        self._claims[run_id], self._queues[run_id] = None, queue
        self._idle.clear()
        try:
            return await self._drive(run_id, drive)
        except Exception as error:  # noqa: BLE001 - the outcome of the drive would be an error, and the run lost
            self._report("trouble", run_id, f"{type(error).__name__}: {error}")
            return False  # others take over the drive, which is claimed and has no driver
        finally:
            del self._claims[run_id], self._queues[run_id]
            if not self._claims:
                self._idle.set()

    async def _drive(self, run_id: str, drive: str) -> bool:
        park = partial(self._client.park, run_id, drive=drive)
        try:
            result = await self._result(run_id)
        except (RunIsLive, FencedOut) as error:  # another process drives it: the run waits until that one stops
            self._report("lost", run_id, str(error))
            return await self._settle(park)
        except JournalUnavailable as error:
            self._report("lost", run_id, str(error))
            return await self._settle(lambda: park(retry_after=0.0))
        except EventsLost as error:  # what it did since is not recorded, so a person decides whether it goes on
            reason = str(error)
            self._report("lost", run_id, reason)
            return await self._settle(lambda: self._hold(run_id, reason, lambda: park(reason)))
        except Exception as error:  # noqa: BLE001 - a run that can't go on here must not be lost
            reason = str(error) if isinstance(error, TeamwrightError) else f"{type(error).__name__}: {error}"
            self._report("cannot_drive", run_id, reason)
            if is_changed := isinstance(error, NonDeterminism):
                self._changed.add(run_id)
            return await self._settle(lambda: park(reason, None if is_changed else RETRY_SECONDS, waits=is_changed))
        if isinstance(result, Lacks):
            self._report("leaves", run_id, str(result))
            return await self._settle(lambda: park(str(result), waits=True))
        if result is None or result.status in FINAL:
            self._report("finished", run_id, result.status if result is not None else "deleted")
            return True
        if result.status == "paused":
            self._report("paused", run_id)
            later = seconds_until(result.resume_at, time.time()) if result.stop_reason == "quota" else None
            return await self._settle(lambda: park(retry_after=later))
        if is_back := await self._settle(lambda: park(retry_after=0.0)):
            self._report("hands_back", run_id)
        return is_back

    async def _result(self, run_id: str) -> RunResult | Lacks | None:
        """Drive a run until it ends or stops; `None` if it does not exist any more.

        A run that needs what this worker lacks is left as it is.
        """
        summary = await self._journal.find(run_id)
        if summary is None:
            return None
        waits = summary.status == "paused" and not await has_arrived(self._journal, summary)
        if summary.status in FINAL or waits or self._is_draining:
            return await self._engine.runs.result(run_id)
        team = await self._teams.load(run_id)
        if isinstance(team, Lacks):
            await record_wait(self._journal, run_id, self._queues[run_id], team)
            return team
        self._report("drives", run_id)
        handle = await self._engine.start_resume(run_id, team=team)
        self._claims[run_id] = handle
        if self._is_draining and handle.control is not None:
            handle.control.hand_back(self._queues[run_id])
        return await handle.result()

    async def _hold(self, run_id: str, reason: str, park: Callable[[], Awaitable[bool]]) -> bool:
        """Pause a run that can't go on by itself, until it is resumed by hand."""
        with suppress(RunIsLive):  # another process has taken it over, and knows what is recorded
            await record_pause(self._journal, run_id, reason)
        return await park()

    async def _settle(self, park: Callable[[], Awaitable[bool]]) -> bool:
        """Park a run; while the database can't be reached, try again. Returns whether its drive can end."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await park()
            except JournalUnavailable as error:
                if self._is_draining:
                    return False  # the drive stays claimed, and another worker takes over
                if pause == FIRST_PAUSE:
                    self._tell("trouble", detail=str(error))
            except JournalError as error:
                self._report("trouble", detail=str(error))
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5.0)


def _is_lost(error: JournalUnavailable) -> bool:
    """Whether the database can't be reached, or takes no more connections; not, for example, a missing right."""
    cause = error.__cause__
    return cause is not None and is_lost(getattr(cause, "orig", None) or cause)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
