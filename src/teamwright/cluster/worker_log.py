"""The log of a worker: lines for its operator, as text or JSON, and how often each thing happened."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, Protocol

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
