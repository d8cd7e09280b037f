"""Queues of runs: their names, what is in them, and settings that all programs of a cluster share.

It imports nothing of DBOS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from teamwright.errors import UsageError
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.values.names import check_name

APPLICATION: Final = "teamwright"
WORKFLOW: Final = "drive"
"""The name of the workflow that is one drive of a run."""
VERSION: Final = "1"
"""The version of that workflow, which all workers know; the versions of strategies are checked by the run itself."""
DEFAULT_QUEUE: Final = "default"
BRANCHES: Final = ".branches"
"""The end of the names of queues of child runs; no other queue may have it."""
MOST_PRIORITY: Final = 1_000_000


EntryState = Literal["queued", "claimed", "parked"]


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One run in a queue that has not ended. Times are in seconds since 1970, by the database's clock."""

    run_id: str
    queue: str
    state: EntryState
    priority: int = 0
    since: float = 0.0
    """When the run got its drive, or was submitted."""
    drive: str | None = None
    due: float | None = None
    """When a run without a drive gets one; `None`: when there is something to do for it."""
    reason: str = ""
    """Why a worker parked the run, where it could not go on there."""
    waits: bool = False
    """Whether the run waits for a worker that has what it needs."""


@dataclass(frozen=True, slots=True)
class ClaimedDrive:
    """A drive of a run that a worker has claimed, and has not ended."""

    id: str
    run_id: str
    worker: str


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of one queue for the whole cluster; `None` is no limit."""

    name: str
    at_once: int | None = None
    per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """How many runs of one queue are in which state."""

    queue: str
    queued: int = 0
    claimed: int = 0
    parked: int = 0
    oldest: float | None = None
    """For how many seconds the run that has been waiting longest could have been claimed."""


def queue_schema(address: DatabaseAddress) -> str:
    """The schema of the queue's tables, in the database of the journal."""
    return f"{address.schema}_queue"


def worker_lock(worker_id: str) -> str:
    """The lock that a worker holds while it lives, among the driver locks of the journal; no run has such an id."""
    return f"cluster/worker/{worker_id}"


def queue_watch(queue: str) -> str:
    """What to watch, in place of the id of a run, for entries that are added to a queue; no run has such an id."""
    return f"cluster/queue/{queue}"


def branch_queue(queue: str) -> str:
    """The queue of the child runs that runs of a queue place on its workers. It needs room of its own: parents wait."""
    return f"{check_own_queue(queue)}{BRANCHES}"


def is_branch_queue(queue: str) -> bool:
    """Whether the runs of a queue are children of others."""
    return queue.endswith(BRANCHES)


def check_queue(name: str) -> str:
    """Return the name of a queue, or raise `UsageError`."""
    return check_name("queue", name)


def check_own_queue(name: str) -> str:
    """Return the name of a queue for runs that people submit, or raise `UsageError`."""
    if is_branch_queue(check_queue(name)):
        raise UsageError(f"The queue can't be {name!r}: names that end with {BRANCHES!r} are those of child runs.")
    return name


def check_priority(priority: int) -> int:
    """Return the priority of a run, or raise `UsageError`."""
    if not -MOST_PRIORITY < priority < MOST_PRIORITY:
        raise UsageError(
            f"The priority can't be {priority}: use a number between -{MOST_PRIORITY} and {MOST_PRIORITY}."
        )
    return priority


def stored_priority(priority: int, *, has_begun: bool) -> int:
    """The priority of a drive as DBOS stores it, where lower numbers come first.

    Of two runs with one priority, the one that has begun comes first: it was in the queue before.
    """
    return 2 * (MOST_PRIORITY - priority) + (0 if has_begun else 1)
