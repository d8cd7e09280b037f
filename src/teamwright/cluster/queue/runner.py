"""DBOS in a worker process: claims entries of its queues and calls a function for each. One for each process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from teamwright.cluster.queue.client import POLL_SECONDS, make_engine
from teamwright.cluster.queue.settings import APPLICATION, VERSION, WORKFLOW, queue_schema
from teamwright.journal.postgres.address import DatabaseAddress

if TYPE_CHECKING:
    from dbos import Queue

BUSY_POLL_SECONDS = 0.05
"""How often a worker that has just finished a run looks for the next one."""
BUSY_SECONDS = 0.2
"""How long after the end of a run it looks that often: looking takes more of Postgres than a turn does."""

Drive = Callable[[str, str], Awaitable[bool]]
"""Drives a run of a queue; returns whether the run is done, so that its entry is too."""


class QueueRunner:
    """Claims at most `at_once` entries of each queue at a time; zero stops claiming.

    `waiting` returns how many claimed entries of a queue only wait for others: they take no room.
    """

    def __init__(
        self,
        address: DatabaseAddress,
        queues: Sequence[str],
        worker_id: str,
        at_once: int,
        drive: Drive,
        waiting: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self._address, self._queues, self._worker_id, self._drive = address, list(queues), worker_id, drive
        self.at_once, self._waiting = at_once, waiting
        self.adopted = 0
        """How many runs the worker drives that it did not claim here."""
        self._busy_until = 0.0

    def launch(self) -> None:
        """Begin to claim entries. Call it in the event loop that drives the runs."""
        from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

        config = DBOSConfig(
            name=APPLICATION,
            system_database_engine=make_engine(self._address, "teamwright-worker"),
            dbos_system_schema=queue_schema(self._address),
            serializer=DBOSPortableJSONSerializer(),
            application_version=VERSION,
            executor_id=self._worker_id,
            log_level="ERROR",
        )

        async def workflow(run_id: str, queue: str) -> None:
            await self._work(run_id, queue)

        dbos = DBOS(config=config)
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(workflow)
        DBOS.listen_queues(self._queues)
        DBOS.launch()
        system = dbos._sys_db  # pyright: ignore[reportPrivateUsage] - the limit of one worker has no setting
        read_queue = system.get_queue

        def own_queue(name: str, **options: object) -> Queue | None:
            """Return a queue as it is for this worker. DBOS reads it before each claim."""
            found = read_queue(name, **options)  # pyright: ignore[reportArgumentType]
            if found is not None:
                found._worker_concurrency = self._room(name)  # pyright: ignore[reportPrivateUsage]
                found._polling_interval_sec = self._poll_seconds()  # pyright: ignore[reportPrivateUsage]
            return found

        system.get_queue = own_queue

    async def close(self) -> None:
        """Stop claiming. Entries of runs that are still driven stay claimed until another worker takes over."""
        from dbos import DBOS

        self.at_once = 0
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)

    def _room(self, queue: str) -> int:
        return max(0, self.at_once - self.adopted) + self._waiting(queue) if self.at_once else 0

    def _poll_seconds(self) -> float:
        return BUSY_POLL_SECONDS if time.monotonic() < self._busy_until else POLL_SECONDS

    async def _work(self, run_id: str, queue: str) -> None:
        """Drive one run: the whole workflow. It has no steps: the journal records the effects.

        An entry that is not done was put back or parked. Raising `CancelledError` ends the workflow without an outcome;
        after an ordinary return DBOS would poll for the outcome of another worker.
        """
        is_done = await self._drive(run_id, queue)
        self._busy_until = time.monotonic() + BUSY_SECONDS
        if not is_done:
            raise asyncio.CancelledError
