"""What a worker says of itself: lines for its operator, and the row by which other processes know that it lives.

The row is for people: the driver lock of a run, and not this, shows whether it has a driver.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Literal, Protocol

from teamwright.errors import JournalError
from teamwright.journal.postgres.journal import PostgresJournal
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
SHOW_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 1.5
"""How long the database may take to answer before it counts as away."""
REFUSAL: Final = "FATAL:"
"""How a server begins that refuses a connection, in any language."""


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
        """Write one line."""
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


class Presence:
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
        """Write once."""
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
        """Remove the worker from the list."""
        with suppress(JournalError):
            await self._journal.cluster.workers.remove(self._worker_id)
