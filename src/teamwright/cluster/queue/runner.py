"""DBOS in a worker process: claims entries of its queues and calls a function for each. One for each process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from threading import Event
from typing import TYPE_CHECKING

from teamwright.cluster.queue.client import POLL_SECONDS, QueueClient
from teamwright.cluster.queue.parked_claim import claim_parked
from teamwright.cluster.queue.settings import APPLICATION, VERSION, WORKFLOW, queue_schema

if TYPE_CHECKING:
    from dbos import Queue
    from dbos._sys_db import SystemDatabase

GATHER_SECONDS = 0.03
"""How long a worker gathers reasons to look for entries: a look takes more of Postgres than a turn does."""

CONTENTION = "40001"
"""The state of a transaction that another one has overtaken."""

Drive = Callable[[str, str], Awaitable[bool]]
"""Drives a run of a queue; returns whether the run is done, so that its entry is too."""


class QueueRunner:
    """Claims at most `at_once` entries of each queue at a time, over the connections of `client`; zero stops claiming.

    `waiting` returns how many claimed entries of a queue only wait for others: they take no room. While `is_ready`
    returns False, nothing is claimed.
    """

    def __init__(
        self,
        client: QueueClient,
        queues: Sequence[str],
        worker_id: str,
        at_once: int,
        drive: Drive,
        waiting: Callable[[str], int] = lambda _: 0,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client, self._queues, self._worker_id, self._drive = client, list(queues), worker_id, drive
        self.at_once, self._waiting, self._is_ready = at_once, waiting, is_ready
        self._wanted: dict[str, str] = {}
        self._due = {queue: Event() for queue in self._queues}

    def launch(self) -> None:
        """Begin to claim entries. Call it in the event loop that drives the runs."""
        from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
        from sqlalchemy.exc import SQLAlchemyError

        config = DBOSConfig(
            name=APPLICATION,
            system_database_engine=self._client.engine,
            dbos_system_schema=queue_schema(self._client.address),
            serializer=DBOSPortableJSONSerializer(),
            application_version=VERSION,
            executor_id=self._worker_id,
            log_level="CRITICAL",
        )

        async def workflow(run_id: str, queue: str) -> None:
            await self._work(run_id, queue)

        dbos = DBOS(config=config)
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(workflow)
        DBOS.listen_queues(self._queues)
        try:
            DBOS.launch()
        except SQLAlchemyError as error:
            raise self._client.unavailable(error) from error
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
            """Claim wanted entries and then the next ones of a queue, as far as there is room now.

            DBOS would not look for up to two minutes after some collisions with other workers, which are common where
            a queue has limits. Here it looks again as usual.
            """
            queue._worker_concurrency = self._room(queue.name)  # pyright: ignore[reportPrivateUsage]
            wanted = self._claim_wanted(queue.name, running, owner_xid)
            try:
                found, reason = claim(queue, worker, version, partition, running + len(wanted), owner_xid=owner_xid)
            except Exception as error:
                if getattr(getattr(error, "orig", None), "sqlstate", None) != CONTENTION and not wanted:
                    raise
                return wanted, None
            return [*wanted, *found], reason

        system.transition_delayed_workflows = self._client.begin_delayed  # DBOS compares with the clock of this machine
        system.get_queue = own_queue
        system.start_queued_workflows = own_claim  # pyright: ignore[reportAttributeAccessIssue]

    def want(self, run_id: str, queue: str) -> None:
        """Claim this parked entry with the next look, if there is room for it then."""
        self._wanted[run_id] = queue
        self.wake()

    def wanted(self, queue: str) -> int:
        """How many parked entries of a queue are about to be claimed."""
        return list(self._wanted.values()).count(queue)

    async def close(self) -> None:
        """Stop claiming. Entries of runs that are still driven stay claimed until another worker takes over."""
        from dbos import DBOS

        self.at_once = 0
        self.wake()
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)

    def _room(self, queue: str) -> int:
        return self.at_once + self._waiting(queue) if self.at_once and self._is_ready() else 0

    def _claim_wanted(self, queue: str, running: int, token: str) -> list[str]:
        """Claim the wanted entries of a queue for which this worker has room; forget the others."""
        claimed: list[str] = []
        for run_id in [run_id for run_id, own in list(self._wanted.items()) if own == queue]:
            if running + len(claimed) < self._room(queue):
                with self._client.engine.begin() as connection:
                    schema = queue_schema(self._client.address)
                    if claim_parked(connection, schema, run_id, queue, self._worker_id, token):
                        claimed.append(run_id)
            self._wanted.pop(run_id, None)
        return claimed

    def wake(self) -> None:
        """Look for entries soon: one was added, or there is room again."""
        for due in self._due.values():
            due.set()

    def _wait(self, queue: str) -> None:
        if (due := self._due.get(queue)) is not None:
            due.wait(POLL_SECONDS)
            due.clear()

    async def _work(self, run_id: str, queue: str) -> None:
        """Drive one run: the whole workflow. It has no steps: the journal records the effects.

        An entry that is not done was put back or parked. Raising `CancelledError` ends the workflow without an outcome;
        after an ordinary return DBOS would poll for the outcome of another worker.
        """
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(lambda _: self.wake())  # by then DBOS no longer counts the run
        if not await self._drive(run_id, queue):
            raise asyncio.CancelledError
