"""The cluster as its journal shows it: workers, queues and models at this moment.

No process decides by it: the driver lock of a run shows whether it has a driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from teamwright.cluster.heartbeat import LOST_SECONDS
from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.queue_database import QueueLimits, QueueLoad
from teamwright.errors import UsageError
from teamwright.journal.location import JOURNAL_VARIABLE, resolve_journal
from teamwright.journal.postgres.cluster_tables import WorkerRow
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.postgres.rate_limits import ModelPace
from teamwright.runtime.engine import Engine
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.turns.results import FINAL

WorkerState = Literal["ready", "draining", "lost"]
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker. A `lost` one died without a word within the last hour."""

    id: str
    name: str
    queue: str
    state: WorkerState
    at_once: int
    driving: tuple[str, ...]
    finished: int
    version: str
    seconds: float
    """How long it has been running."""
    seen: float
    """How many seconds ago it was seen."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue: the runs that wait in it, and those that workers have claimed from it."""

    name: str
    queued: int = 0
    claimed: int = 0
    oldest: float | None = None
    """The age in seconds of the run that has been waiting longest, if one waits."""
    at_once: int | None = None
    per_minute: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it has neither runs nor limits."""
        return not (self.queued or self.claimed or self.at_once or self.per_minute)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A run that no worker could drive so far, and why, in words."""

    run_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All workers, queues and models in use."""

    workers: Sequence[WorkerStatus] = ()
    queues: Sequence[QueueStatus] = ()
    models: Sequence[ModelPace] = field(default_factory=tuple[ModelPace, ...])
    parked: int = 0
    """Runs that wait for a person, or for a worker that has what they need."""
    set_aside: Sequence[SetAside] = ()
    """Those of them that no worker could drive, where they were asked for."""

    @property
    def open_runs(self) -> int:
        return self.parked + sum(one.queued + one.claimed for one in self.queues)

    @property
    def oldest(self) -> float | None:
        """The age in seconds of the run that has been waiting longest in any queue."""
        return max((one.oldest for one in self.queues if one.oldest is not None), default=None)


async def read_set_aside(client: QueueClient) -> list[SetAside]:
    """Read which runs no worker could drive so far, and why; first those that no worker will drive by itself."""
    found = sorted(await client.entries("parked"), key=lambda one: one.waits)
    return [SetAside(one.run_id, one.reason) for one in found if one.reason]


async def has_worker(journal: PostgresJournal, queue: str) -> bool:
    """Whether a worker of a queue lives that claims runs."""
    return any(one.queue == queue and one.state == "ready" for one in map(_worker, await journal.cluster.workers.all()))


async def read_status(journal: PostgresJournal, client: QueueClient) -> ClusterStatus:
    """Read the state of a cluster; both must be open."""
    load = await client.load()
    limits = {one.name: one for one in await client.queues.list()}
    waiting = {one.queue: one for one in load if one.queue}
    names = sorted(limits.keys() | waiting.keys())
    return ClusterStatus(
        workers=[_worker(row) for row in await journal.cluster.workers.all()],
        queues=[_queue(waiting.get(name, QueueLoad(name)), limits.get(name, QueueLimits(name))) for name in names],
        models=await journal.cluster.paces(),
        parked=sum(one.parked for one in load),
    )


def _worker(row: WorkerRow) -> WorkerStatus:
    """Read what a worker says of itself, also one of another version."""
    data = row.data
    state = "lost" if row.age > LOST_SECONDS else cast("WorkerState", str(data.get("state", "ready")))
    driving = data.get("driving")
    return WorkerStatus(
        id=row.id,
        name=str(data.get("name", row.id)),
        queue=str(data.get("queue", "")),
        state=state,
        at_once=_number(data.get("at_once")),
        driving=tuple(map(str, driving)) if isinstance(driving, list) else (),
        finished=_number(data.get("finished")),
        version=str(data.get("version", "")),
        seconds=_number(data.get("seconds")),
        seen=round(row.age, 1),
    )


def _queue(load: QueueLoad, limits: QueueLimits) -> QueueStatus:
    return QueueStatus(load.queue, load.queued, load.claimed, load.oldest, limits.at_once, limits.per_minute)


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def cluster_journal(journal: str | None = None) -> PostgresJournal:
    """Return the journal that the machines of a cluster share, not yet open; raises `UsageError` if it is a file."""
    found = resolve_journal(journal)
    if not isinstance(found, PostgresJournal):
        raise UsageError(
            "Queues and workers need a journal in Postgres: give its address with --journal URL, or set"
            f" {JOURNAL_VARIABLE}=postgresql://…"
        )
    return found


async def follow_queued(engine: Engine, run_id: str, after: int = 0) -> AsyncGenerator[Event | AnyDelta]:
    """Yield the events of a run until it has ended or is paused: while it is queued, and on each worker in turn.

    Where processes share a transport, pieces of replies come in between.
    """
    while True:
        async for item in engine.runs.follow(run_id, after, parts=True):
            if isinstance(item, Event):
                after = item.number
            yield item
        found = await engine.runs.find(run_id)
        if found is None or found.status in FINAL or found.status == "paused":
            return
        await asyncio.sleep(POLL_SECONDS)
