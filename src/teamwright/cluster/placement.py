"""Branches of a team as child runs, which workers drive.

Each is submitted once; its end is read from the journal. A parent holds no slot and no connection while it waits: one
task looks after all children of a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypedDict

import anyio

from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.queue_database import DEFAULT_QUEUE, branch_queue
from teamwright.cluster.shared_limits import ClusterLimits
from teamwright.cluster.submission import pack
from teamwright.errors import AgentError, JournalError, RunError, UsageError
from teamwright.history.run_record import RunRecord
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import Batch, Journal
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.placement import CancelRun, PackedTeam
from teamwright.runtime.recorded.reader import read_record
from teamwright.teams.team import Team
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import RunStarted
from teamwright.values.specs.manifest import Source
from teamwright.values.turns.results import FINAL

LOOK_SECONDS: Final = 0.02
"""The least time between two looks, in which the ends of several children are noticed together."""
POLL_SECONDS: Final = 2.0
"""How often it looks at all of them: a notification may be lost."""
STOPPED = "the run that asked for it has stopped it"


class WaitingChildren:
    """The children that runs of this process wait for. They hold nothing while they wait."""

    def __init__(self, journal: PostgresJournal, bus: Bus) -> None:
        self._journal, self._bus = journal, bus
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._parents: dict[str, str] = {}
        self._changed, self._due = asyncio.Event(), set[str]()
        self._looking: asyncio.Task[None] | None = None

    @property
    def parents(self) -> set[str]:
        return set(self._parents.values())

    async def wait(self, run_id: str, parent: str) -> None:
        """Wait until a child run has ended, or was deleted."""
        self._ends[run_id] = end = asyncio.get_running_loop().create_future()
        self._parents[run_id] = parent
        self._change(run_id)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="child runs")
        try:
            with self._journal.watching(run_id, partial(self._change, run_id)):
                await end
        finally:
            del self._ends[run_id], self._parents[run_id]

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look(self) -> None:
        """Look for ends until no child is waited for: at the children that have changed, and at all after a while."""
        loop = asyncio.get_running_loop()
        poll_at = loop.time() + POLL_SECONDS
        with self._bus.observing(self._hear):
            while self._ends:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(poll_at):
                        await self._changed.wait()
                self._changed.clear()
                due, self._due = self._due, set[str]()
                if loop.time() >= poll_at:
                    due, poll_at = set(self._ends), loop.time() + POLL_SECONDS
                with suppress(JournalError):  # the parents report it; here we look again
                    await self._end_finished(due)
                await asyncio.sleep(LOOK_SECONDS)

    async def _end_finished(self, run_ids: Collection[str]) -> None:
        found = await self._journal.cluster.summaries(list(run_ids))
        for run_id in run_ids:
            run, end = found.get(run_id), self._ends.get(run_id)
            if end is not None and not end.done() and (run is None or run.status in FINAL):
                end.set_result(None)

    def _change(self, run_id: str) -> None:
        self._due.add(run_id)
        self._changed.set()

    def _hear(self, event: Event | AnyDelta) -> None:
        """Hear the end of a child that this process drives itself."""
        if event.run_id in self._ends and event.kind == "run.ended":
            self._change(event.run_id)


class WorkerPlacement:
    """Places branches on the workers of a queue; the queue of branches is another one, with room of its own.

    An engine whose journal is wrapped is given a placement with the `journal` inside.
    """

    def __init__(self, queue: str = DEFAULT_QUEUE, journal: PostgresJournal | None = None) -> None:
        self._queue = branch_queue(queue)
        self._journal = journal
        self._cancel_run: CancelRun | None = None
        self._client: QueueClient | None = None
        self._opening = asyncio.Lock()
        self._children: WaitingChildren | None = None
        self._cancels: set[asyncio.Task[None]] = set()

    @property
    def queue(self) -> str:
        return self._queue

    def waiting(self, run_ids: Sequence[str]) -> int:
        """How many of these runs wait for children now."""
        return 0 if self._children is None else len(self._children.parents.intersection(run_ids))

    async def open(self, journal: Journal, bus: Bus, cancel: CancelRun) -> None:
        """Begin to use the journal of an engine. Connections to the queue open with the first child."""
        found = self._journal or journal
        if not isinstance(found, PostgresJournal):
            raise UsageError("Branches can be placed on workers only where the journal is in Postgres.")
        self._journal, self._cancel_run = found, cancel
        self._children = WaitingChildren(found, bus)

    async def close(self) -> None:
        """Send the cancellations that are due, and end."""
        if self._cancels:
            await asyncio.wait(self._cancels)
        if self._children is not None:
            await self._children.close()
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def pack(self, source: Source, team: Team) -> PackedTeam:
        """Read the files that a parent's team names."""
        packed = await anyio.to_thread.run_sync(lambda: pack(source, secrets=team.secrets))
        return PackedTeam(packed.source, packed.files)

    async def finished(self, batch: Batch, *, parent: str, depth: int) -> RunRecord:
        """Submit a child run, unless it exists, and return its record once it has ended.

        Runs that are deeper come first: those around them wait for them. Raises `AgentError` if a run of its id exists
        that this parent has not started.
        """
        assert self._journal is not None
        assert self._children is not None
        is_new = await self._journal.find(batch.run_id) is None and await self._submit(batch, depth)
        if not is_new:
            await self._require_child(batch)
        await self._children.wait(batch.run_id, parent)
        return await read_record(self._journal, batch.run_id)

    async def _require_child(self, batch: Batch) -> None:
        """Raise `AgentError` unless the run of this id answers the ask of this batch: ids can be guessed."""
        assert self._journal is not None
        events = await self._journal.read(batch.run_id, limit=1)
        if events and _branch_of(events[0]) != _branch_of(batch.events[0]):
            raise AgentError(
                f"There is a run {batch.run_id!r} which has the id of this branch but was not started by it, so its"
                f" result is not used. Find out who submitted it, delete it with  teamwright runs delete"
                f" {batch.run_id}  and try the branch again with  teamwright runs fork RUN --retry"
            )

    async def _submit(self, batch: Batch, depth: int) -> bool:
        """Submit a child, and return whether it is new.

        A submission that has begun also ends, so that the child can be cancelled.
        """
        client = await self._opened_client()
        submitting = asyncio.ensure_future(client.submit(batch, self._queue, priority=depth))
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            await asyncio.wait([submitting])
            raise

    def cancel(self, run_ids: Sequence[str]) -> None:
        """Cancel child runs that have not ended, in the background."""
        task = asyncio.ensure_future(self._cancel(run_ids))
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def _cancel(self, run_ids: Sequence[str]) -> None:
        assert self._journal is not None
        assert self._cancel_run is not None
        with suppress(JournalError):  # workers also look for children whose parent has ended
            for run in (await self._journal.cluster.summaries(run_ids)).values():
                if run.parent and run.status not in FINAL:  # not a run that only has the id of a child
                    with suppress(RunError):  # it has ended, or a worker begins to drive it and finds the request
                        await self._cancel_run(run.id, STOPPED, wait=False)

    async def _opened_client(self) -> QueueClient:
        assert self._journal is not None
        async with self._opening:
            if self._client is None:
                client = QueueClient(self._journal.address)
                await client.open()
                self._client = client
            return self._client


def _branch_of(first: Event) -> tuple[str, str] | None:
    """The parent of a run that was placed, and the ask that it answers; `None` for any other run."""
    origin = first.fact.origin if isinstance(first.fact, RunStarted) else None
    return (origin.run_id, origin.key) if origin is not None and origin.how == "place" else None


class EngineParts(TypedDict):
    """Arguments of an engine."""

    shared: ClusterLimits
    placement: WorkerPlacement


def engine_parts(url: str, journal: PostgresJournal | None = None) -> EngineParts:
    """Return the shared parts of an engine over the database at this URL, for its journal if it is open."""
    return EngineParts(shared=ClusterLimits(url), placement=WorkerPlacement(journal=journal))
