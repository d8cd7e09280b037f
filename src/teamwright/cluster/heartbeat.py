"""The heartbeat of a worker: the row by which people see that it lives, and after how long a worker counts as dead.

No process decides by the row: the driver lock of a run, and not this, shows whether it has a driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from teamwright.cluster.worker_log import WorkerReport
from teamwright.errors import JournalError
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.values.value import JsonValue

SHOW_SECONDS: Final = 2.0
"""How often a worker writes its row."""
LOST_SECONDS: Final = 10.0
"""A worker whose row is older is shown as lost: it has died or is cut off. Nothing is taken from it for that."""
DEATH_SECONDS: Final = 2.0
"""A worker without its locks for so long has died, and its runs are taken over: one that lives takes its locks again
after the database was away."""
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
