"""What every worker looks after, one of them at a time: drives whose worker has died, orphans, and runs to delete.

*Take-over* replaces such drives, and gives a drive to open runs without one that can go on. The driver lock of a run
tells whether a process drives it, so no heartbeat is needed; the database frees the locks of a worker that hangs or is
cut off after `SESSION_SILENCE_SECONDS` (`journal/postgres/driver_connection.py`). *Orphans* are child runs whose parent
has ended: a parent that stops a branch cancels the child itself, unless it died before, or was cancelled without one.
*Retention* deletes runs that ended long ago, by the clock of the database, a few at once: commits wait meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.queue_database import ClaimedDrive, QueueEntry, worker_lock
from teamwright.cluster.status import WorkerReport
from teamwright.errors import JournalError, JournalUnavailable, RunError, RunIsLive
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import InboxItem
from teamwright.runtime.placement import CancelRun
from teamwright.runtime.recorded.reader import read_record
from teamwright.values.people import ActionClaim, Answered, Undo
from teamwright.values.turns.results import FINAL, RunSummary, seconds_until

if TYPE_CHECKING:
    from teamwright.history.run_record import RunRecord


ORPHANS_SECONDS: Final = 2.0
ORPHANS_LOCK: Final = "cluster/orphans"
"""The lock under which one worker at a time looks; no run has such an id."""
ORPHANED: Final = "the run that asked for it has ended"
RETENTION_SECONDS: Final = 60.0
"""The longest wait between two looks; runs that are kept for less are looked at as often as that."""
MOST_DELETED: Final = 20
"""The most runs that are deleted at once, besides their children."""
PAUSE_SECONDS: Final = 0.5
RETENTION_LOCK: Final = "cluster/retention"
"""The lock under which one worker at a time looks; no run has such an id."""


class Orphans:
    """Looks after the child runs of the whole cluster; one worker at a time does so."""

    def __init__(self, journal: PostgresJournal, client: QueueClient, cancel: CancelRun) -> None:
        self._journal, self._client, self._cancel_run = journal, client, cancel
        self._cancelled: set[str] = set()

    async def watch(self) -> None:
        """Look again and again, also after the database was away."""
        while True:
            await asyncio.sleep(ORPHANS_SECONDS)
            with suppress(RunIsLive, JournalError):
                async with self._journal.drive(ORPHANS_LOCK):
                    await self.cancel()

    async def cancel(self) -> None:
        """Cancel the open children of parents that have ended."""
        orphans = await self._client.orphans()
        self._cancelled.intersection_update(orphans)
        for child in orphans:
            if child not in self._cancelled:
                with suppress(RunError):  # it has ended, or a worker begins to drive it and finds the request
                    await self._cancel_run(child, ORPHANED, wait=False)
                self._cancelled.add(child)


class Retention:
    """Deletes runs that ended more than `seconds` ago."""

    def __init__(self, journal: PostgresJournal, seconds: float, report: WorkerReport) -> None:
        self._journal, self._seconds, self._report = journal, seconds, report

    async def watch(self) -> None:
        """Look again and again, also after the database was away."""
        while True:
            try:
                async with self._journal.drive(RETENTION_LOCK):
                    while await self.look():  # noqa: ASYNC110 - others commit in the pause
                        await asyncio.sleep(PAUSE_SECONDS)
            except RunIsLive:
                pass  # another worker looks, or drives a child of what was to be deleted
            except JournalError as error:
                self._report("trouble", detail=f"can't delete old runs: {error}")
            await asyncio.sleep(max(PAUSE_SECONDS, min(self._seconds, RETENTION_SECONDS)))

    async def look(self) -> bool:
        """Delete the oldest runs that are due; returns whether there may be more."""
        due = await self._journal.cluster.ended_before(self._seconds, MOST_DELETED)
        children = await self._journal.descendants(due)
        for run_id in due:
            self._report("deleted", run_id)
        if due:
            await self._journal.delete([*due, *(one.id for one in children)])
        return len(due) == MOST_DELETED


V = TypeVar("V")
LOOK_SECONDS: Final = 1.0
DEATH_SECONDS: Final = 2.0
"""A worker without its locks for so long has died, and its runs are taken over: one that lives takes its locks again
after the database was away."""
LOAD_SECONDS: Final = 30.0
"""How long a worker that lives may need from the claim of a run to its driver lock: it loads the team first."""
LOOK_SHARE: Final = 10.0
"""How much longer than a look the pause after it is, at least, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE: Final = 5.0
CLEAN_SECONDS: Final = 60.0
KEEP_SECONDS: Final = 24 * 3600.0
"""How long drives are kept after they have ended."""
UNABLE_SECONDS: Final = 30.0
"""How long a worker does not look again at a run that needs what it lacks."""
TAKE_OVER_LOCK: Final = "cluster/take-over"
"""The lock under which one worker at a time looks; no run has such an id."""


class TakeOver:
    """Looks after all runs in the queues of the cluster."""

    def __init__(
        self,
        journal: PostgresJournal,
        client: QueueClient,
        is_own: Callable[[str], bool],
        report: WorkerReport,
        adopt: Callable[[QueueEntry], Awaitable[bool]],
    ) -> None:
        self._journal, self._client, self._is_own, self._report = journal, client, is_own, report
        self._adopt = adopt
        self._undriven: dict[str, float] = {}
        """Since when claimed drives have had no driver."""
        self._futile_items: dict[str, int] = {}
        """The last inbox items of paused runs with which they could not go on."""
        self._unable_until: dict[str, float] = {}
        """When this worker looks again at runs that need what it lacks."""
        self._cleaned = -CLEAN_SECONDS

    async def watch(self) -> None:
        """Look again and again, also after the database was away."""
        pause = LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = LOOK_SECONDS
            try:
                async with self._journal.drive(TAKE_OVER_LOCK):
                    began = time.monotonic()
                    await self.look()
                    pause = min(max(pause, LOOK_SHARE * (time.monotonic() - began)), LONGEST_PAUSE)
            except RunIsLive:
                pass  # another worker looks
            except JournalError as error:
                self._report("trouble", detail=f"can't look for runs of dead workers: {error}")

    async def look(self) -> None:
        """Look once at all drives that workers have claimed, and at all open runs that have none."""
        claimed, entries = await self._client.drives(), await self._client.to_enqueue()
        locks = {*(one.run_id for one in claimed), *(one.run_id for one in entries)}
        locks.update(worker_lock(one.worker) for one in claimed)
        driven = await self._journal.cluster.driven(list(locks)) if locks else set[str]()

        def is_idle(one: ClaimedDrive | QueueEntry) -> bool:
            return one.run_id not in driven and not self._is_own(one.run_id)

        await self._take_over([one for one in claimed if is_idle(one)], driven)
        await self._revive([one for one in entries if one.drive is None and is_idle(one)])
        if late := [one.drive for one in entries if one.drive is not None and one.state == "queued"]:
            await self._client.release(late)
        if time.monotonic() > self._cleaned + CLEAN_SECONDS:
            await self._clean()

    async def _clean(self) -> None:
        """Delete old drives, and entries of runs that have ended; the rest of many at the next look."""
        has_more = await self._client.delete_done(KEEP_SECONDS)
        if not await self._client.delete_ended() and not has_more:
            self._cleaned = time.monotonic()

    async def _take_over(self, undriven: Sequence[ClaimedDrive], locked: set[str]) -> None:
        """Replace those whose run had no driver for a while since their claim; a worker that lives may need long."""
        now = time.monotonic()
        self._undriven = {drive.id: self._undriven.get(drive.id, now) for drive in undriven}
        for drive in undriven:
            patience = LOAD_SECONDS if worker_lock(drive.worker) in locked else DEATH_SECONDS
            if now - self._undriven[drive.id] >= patience:
                self._report("takes_over", drive.run_id, drive.worker)
                with self._reported(drive.run_id):
                    await self._client.take_over(drive)

    async def _revive(self, idle: Sequence[QueueEntry]) -> None:
        """Let those go on that can: their answer arrived, their other driver has stopped, or this worker is able to."""
        run_ids = [one.run_id for one in idle]
        self._futile_items = _only(self._futile_items, run_ids)
        self._unable_until = _only(self._unable_until, run_ids)
        if not idle:
            return
        runs = await self._journal.cluster.summaries(run_ids)
        items = await self._journal.cluster.last_inbox_items(run_ids)
        for entry in idle:
            run = runs.get(entry.run_id)
            with self._reported(entry.run_id):
                if run is None or run.status in FINAL:
                    continue  # it has ended meanwhile
                if entry.waits:
                    await self._adopt_once(entry)
                elif await self._can_go_on(run, items.get(entry.run_id, 0)):
                    await self._client.enqueue(entry)

    async def _adopt_once(self, entry: QueueEntry) -> None:
        """Let this worker adopt a run; one that it can't drive is left alone for a while, since many may wait."""
        if time.monotonic() >= self._unable_until.get(entry.run_id, 0.0) and not await self._adopt(entry):
            self._unable_until[entry.run_id] = time.monotonic() + UNABLE_SECONDS

    @contextmanager
    def _reported(self, run_id: str) -> Generator[None]:
        """Report what is wrong with one run, and go on with the next; raises if the database is away."""
        try:
            yield
        except JournalUnavailable:
            raise
        except (JournalError, RunError) as error:
            self._report("trouble", run_id, f"can't put {run_id} back into its queue: {error}")

    async def _can_go_on(self, run: RunSummary, last_item: int) -> bool:
        """Whether there is something to do for a run without a drive, which is not due later."""
        if run.status != "paused":
            return True
        if self._futile_items.get(run.id) == last_item and seconds_until(run.resume_at, time.time()):
            return False
        if await has_arrived(self._journal, run):
            return True
        self._futile_items[run.id] = last_item
        return False


async def has_arrived(journal: PostgresJournal, paused: RunSummary) -> bool:
    """Whether what a paused run waits for has arrived; one that a person paused waits for `runs resume`."""
    if paused.stop_reason == "pause":
        return False
    if not seconds_until(paused.resume_at, time.time()):
        return True
    record = await read_record(journal, paused.id)
    return any(_is_for(record, item) for item in await journal.inbox(paused.id))


def _only(values: Mapping[str, V], names: Collection[str]) -> dict[str, V]:
    return {name: values[name] for name in names if name in values}


def _is_for(record: RunRecord, item: InboxItem) -> bool:
    """Whether an inbox item lets a paused run go on: an answer that it waits for, or another intervention."""
    match item.intervention:
        case Answered(key=key):
            return record.paused is not None and key in record.paused.waiting_for
        case Undo() | ActionClaim():
            return False
        case _:
            return item.id > record.last_inbox_item
