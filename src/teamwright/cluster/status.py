"""What people see of the cluster: the log of a worker, its heartbeat, and workers, queues and models at this moment.

A heartbeat is the row by which people see that a worker lives. No process decides by it: the driver lock of a run, and
not this, shows whether it has a driver.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, Protocol, cast

from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.queue_database import QueueLimits, QueueLoad
from teamwright.errors import JournalError, UsageError
from teamwright.journal.location import JOURNAL_VARIABLE, resolve_journal
from teamwright.journal.postgres.cluster_tables import ScheduleRow, WorkerRow
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.postgres.rate_limits import ModelPace
from teamwright.runtime.engine import Engine
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.turns.results import FINAL
from teamwright.values.value import JsonValue

Happening = Literal[
    "starting",
    "drives",
    "finished",
    "paused",
    "leaves",
    "hands_back",
    "takes_over",
    "lost",
    "cannot_drive",
    "scheduled",
    "deleted",
    "trouble",
    "stopping",
]
_TEXTS: dict[Happening, str] = {
    "starting": "{detail}",
    "drives": "drives {run_id}",
    "finished": "finished {run_id}: {detail}",
    "paused": "paused {run_id}",
    "leaves": "leaves {run_id} to others: it {detail}",
    "hands_back": "hands back {run_id}",
    "takes_over": "takes over {run_id} from {detail}",
    "lost": "lost {run_id}: {detail}",
    "cannot_drive": "can't drive {run_id}: {detail}",
    "scheduled": "the schedule {detail} starts {run_id}",
    "deleted": "deletes {run_id}, which ended long ago",
    "trouble": "{detail}",
    "stopping": "{detail}",
}
_LIBRARIES = ("psycopg", "psycopg_pool", "sqlalchemy", "dbos")
"""Libraries that log each connection that they lose."""


def silence_libraries() -> None:
    """Let libraries write nothing between the lines of a worker, which says itself that the database is away."""
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL)


class WorkerReport(Protocol):
    """Tells the operator what happened, to which run, and the detail that belongs to it."""

    def __call__(self, what: Happening, run_id: str = "", detail: str = "") -> None: ...


class WorkerLog:
    """Writes lines with `write`, and counts what happened: by kind, with the detail of runs that finished."""

    def __init__(self, write: Callable[[str], None], *, as_json: bool = False) -> None:
        self._write, self._as_json = write, as_json
        self.worker = ""
        self.counts: Counter[tuple[Happening, str]] = Counter()

    def __call__(self, what: Happening, run_id: str = "", detail: str = "") -> None:
        self.counts[what, detail if what == "finished" else ""] += 1
        text = self._json(what, run_id, detail) if self._as_json else _TEXTS[what].format(run_id=run_id, detail=detail)
        self._write(text)

    @property
    def finished(self) -> int:
        """How many runs have ended here."""
        return sum(number for (what, _), number in self.counts.items() if what == "finished")

    def _json(self, what: Happening, run_id: str, detail: str) -> str:
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        fields = {"time": time, "worker": self.worker, "event": what, "run_id": run_id, "detail": detail}
        return json.dumps({name: value for name, value in fields.items() if value})


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

    def to_json(self) -> dict[str, JsonValue]:
        """All of it as data."""
        fields = cast("dict[str, JsonValue]", asdict(self))
        models = [cast("JsonValue", one._asdict()) for one in self.models]
        return {"open_runs": self.open_runs, "oldest": self.oldest, **fields, "models": models}


def schedule_json(one: ScheduleRow) -> dict[str, JsonValue]:
    """A schedule as data."""
    return {
        "name": one.name,
        "cron": one.cron,
        "time_zone": one.zone,
        "queue": one.queue,
        "priority": one.priority,
        "next": datetime.fromtimestamp(one.next, UTC).isoformat(timespec="seconds"),
        "last_run": one.last_run or None,
    }


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


def cluster_journal() -> PostgresJournal:
    """Return the journal that the machines of a cluster share, not yet open; raises `UsageError` if it is a file."""
    found = resolve_journal()
    if not isinstance(found, PostgresJournal):
        raise UsageError(
            "Queues and workers need a journal in Postgres: give its address with --journal URL, or set"
            f" {JOURNAL_VARIABLE}=postgresql://…"
        )
    return found


async def follow_queued(engine: Engine, run_id: str) -> AsyncGenerator[Event | AnyDelta]:
    """Yield the events of a run until it has ended or is paused: while it is queued, and on each worker in turn.

    Where processes share a transport, pieces of replies come in between.
    """
    after = 0
    while True:
        async for item in engine.runs.follow(run_id, after, parts=True):
            if isinstance(item, Event):
                after = item.number
            yield item
        found = await engine.runs.find(run_id)
        if found is None or found.status in FINAL or (found.status == "paused" and not found.resume_at):
            return
        await asyncio.sleep(POLL_SECONDS)


SHOW_SECONDS: Final = 2.0
"""How often a worker writes its row."""
LOST_SECONDS: Final = 10.0
"""A worker whose row is older is shown as lost: it has died or is cut off. Nothing is taken from it for that."""
ANSWER_SECONDS: Final = 1.5
"""How long the database may take to answer before it counts as away."""
REFUSAL: Final = "FATAL:"
"""How a server begins that refuses a connection, in any language."""


class Heartbeat:
    """Writes what `describe` returns, every two seconds; reports when the database goes away and is back.

    `problem` returns why the worker can't call models although the database answers, or nothing.
    """

    def __init__(
        self,
        journal: PostgresJournal,
        worker_id: str,
        describe: Callable[[], dict[str, JsonValue]],
        report: WorkerReport,
        problem: Callable[[], str],
    ) -> None:
        self._journal, self._worker_id, self._describe, self._report = journal, worker_id, describe, report
        self._problem = problem
        self.is_connected = False
        """Whether the database took what was written last, and gives the worker the connections that it needs."""
        self.is_away = False
        """Whether the database was lost, which was reported."""
        self._is_explained = False
        self._due = asyncio.Event()

    async def watch(self) -> None:
        """Write again and again, also after the database was away."""
        while True:
            self._due.clear()
            await self.show()
            with suppress(TimeoutError):
                async with asyncio.timeout(SHOW_SECONDS):
                    await self._due.wait()

    def show_soon(self) -> None:
        """Write again at once, without waiting for the database."""
        self._due.set()

    async def show(self) -> None:
        late = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._set, False)
        try:
            await self._journal.cluster.workers.update(self._worker_id, self._describe())
        except JournalError as error:
            self._set(False)
            self._explain(str(error))
        else:
            problem = self._problem()
            self._set(not problem)
            self._explain(problem)
        finally:
            late.cancel()

    def _set(self, is_connected: bool) -> None:
        is_lost = self.is_connected and not is_connected
        if is_lost or (self.is_away and is_connected):
            self._report(
                "trouble", detail=f"the journal {self._journal.address.shown} is {'away' if is_lost else 'back'}"
            )
            self.is_away = is_lost
        self.is_connected = is_connected
        self._is_explained = self._is_explained and not is_connected

    def _explain(self, reason: str) -> None:
        """Report once that the server is there and refuses connections, for example because it has too many."""
        if REFUSAL in reason and not self._is_explained:
            self._is_explained = True
            self._report("trouble", detail=reason)

    async def leave(self) -> None:
        with suppress(JournalError):
            await self._journal.cluster.workers.remove(self._worker_id)
