"""DBOS in a worker process: claims drives of its queues and calls a function for each. One for each process.

Here alone are names of DBOS used that are not public: how soon a worker looks for drives, how many it claims, and that
collisions do not make it wait for minutes have no settings. So `dbos` has an exact version in `pyproject.toml`, and the
test of this module fails where DBOS works in another way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from threading import Event
from typing import TYPE_CHECKING

from teamwright.cluster.queue_client import ADOPT_SECONDS
from teamwright.cluster.queue_database import APPLICATION, POLL_SECONDS, VERSION, WORKFLOW, QueueDatabase, queue_schema

if TYPE_CHECKING:
    from dbos import Queue
    from dbos._sys_db import SystemDatabase

GATHER_SECONDS = 0.03
"""How long a worker gathers reasons to look for drives: a look takes more of Postgres than a turn does."""

CONTENTION = "40001"
"""The state of a transaction that another one has overtaken."""

Drive = Callable[[str, str, str], Awaitable[bool]]
"""Drives a run: its id, its queue and the drive. Returns False if the drive was replaced, or must be."""


class QueueRunner:
    """Claims at most `at_once` drives of each queue at a time, over the connections of `database`; zero stops claiming.

    `waiting` returns how many claimed runs of a queue only wait for others: they take no room. While `is_ready` returns
    False, nothing is claimed.
    """

    def __init__(
        self,
        database: QueueDatabase,
        queues: Sequence[str],
        worker_id: str,
        at_once: int,
        drive: Drive,
        waiting: Callable[[str], int] = lambda _: 0,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._database, self._queues, self._worker_id, self._drive = database, list(queues), worker_id, drive
        self.at_once, self._waiting, self._is_ready = at_once, waiting, is_ready
        self._wanted: dict[str, tuple[str, float]] = {}
        """The drives for this worker alone, with their queues, and until when they are looked for."""
        self._due = {queue: Event() for queue in self._queues}

    def launch(self) -> None:
        """Begin to claim drives. Call it in the event loop that drives the runs."""
        from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
        from sqlalchemy.exc import SQLAlchemyError

        config = DBOSConfig(
            name=APPLICATION,
            system_database_engine=self._database.engine,
            dbos_system_schema=queue_schema(self._database.address),
            serializer=DBOSPortableJSONSerializer(),
            application_version=VERSION,
            executor_id=self._worker_id,
            log_level="CRITICAL",
        )

        async def workflow(run_id: str, queue: str) -> None:
            await self._work(run_id, queue, DBOS.workflow_id or "")

        dbos = DBOS(config=config)
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(workflow)
        DBOS.listen_queues(self._queues)
        try:
            DBOS.launch()
        except SQLAlchemyError as error:
            raise self._database.unavailable(error) from error
        self._adapt(dbos._sys_db)  # pyright: ignore[reportPrivateUsage] - what it changes has no settings

    def _adapt(self, system: SystemDatabase) -> None:
        """Let DBOS claim by the rules of this worker."""
        read_queue, claim = system.get_queue, system.start_queued_workflows

        def own_queue(name: str, **options: object) -> Queue | None:
            """Return a queue as it is for this worker. The thread of the queue reads it, waits, and then claims."""
            self._wait(name)
            found = read_queue(name, **options)  # pyright: ignore[reportArgumentType]
            if found is not None:
                found._polling_interval_sec = GATHER_SECONDS  # pyright: ignore[reportPrivateUsage]
            return found

        def own_claim(
            queue: Queue, worker: str, version: str, partition: str | None, running: int = 0, *, owner_xid: str
        ) -> tuple[list[str], object]:
            """Claim drives for this worker alone and then the next ones of a queue, as far as there is room now.

            DBOS would not look for up to two minutes after some collisions with other workers, which are common where
            a queue has limits. Here it looks again as usual.
            """
            queue._worker_concurrency = self._room(queue.name)  # pyright: ignore[reportPrivateUsage]
            found, reason = list[str](), None
            try:
                if self.wanted(queue.name):
                    found, _ = claim(queue, worker, self._worker_id, partition, running, owner_xid=owner_xid)
                    self._forget(found)
                more, reason = claim(queue, worker, version, partition, running + len(found), owner_xid=owner_xid)
            except Exception as error:
                if getattr(getattr(error, "orig", None), "sqlstate", None) != CONTENTION and not found:
                    raise
                return found, None
            return [*found, *more], reason

        system.get_queue = own_queue
        system.start_queued_workflows = own_claim  # pyright: ignore[reportAttributeAccessIssue]

    def want(self, drive: str, queue: str) -> None:
        """Claim a drive that is for this worker alone, as soon as there is room for it."""
        self._wanted[drive] = (queue, time.monotonic() + ADOPT_SECONDS)
        self.wake()

    def wanted(self, queue: str) -> int:
        """How many drives of a queue are for this worker alone, and not claimed yet."""
        wanted, now = list(self._wanted.items()), time.monotonic()  # at once, since DBOS claims in its own thread
        self._forget([drive for drive, (_, until) in wanted if until < now])
        return sum(own == queue and until >= now for _, (own, until) in wanted)

    def _forget(self, drives: Sequence[str]) -> None:
        for drive in drives:
            self._wanted.pop(drive, None)

    async def close(self) -> None:
        """Stop claiming. Drives that have not ended stay claimed until another worker takes over."""
        from dbos import DBOS

        self.at_once = 0
        self.wake()
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)

    def _room(self, queue: str) -> int:
        return self.at_once + self._waiting(queue) if self.at_once and self._is_ready() else 0

    def wake(self) -> None:
        """Look for drives soon: one was added, or there is room again."""
        for due in self._due.values():
            due.set()

    def _wait(self, queue: str) -> None:
        if (due := self._due.get(queue)) is not None:
            due.wait(POLL_SECONDS)
            due.clear()

    async def _work(self, run_id: str, queue: str, drive: str) -> None:
        """Drive one run: the whole workflow. It has no steps: the journal records the effects.

        A drive that was replaced raises `CancelledError`, which ends the workflow without an outcome; after an ordinary
        return DBOS would poll for the outcome of another worker.
        """
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(lambda _: self.wake())  # by then DBOS no longer counts the run
        if not await self._drive(run_id, queue, drive):
            raise asyncio.CancelledError
