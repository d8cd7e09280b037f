"""Names and settings that all programs of a cluster share. It imports nothing of DBOS."""

from __future__ import annotations

from typing import Final

from teamwright.errors import UsageError
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.values.names import check_name

APPLICATION: Final = "teamwright"
WORKFLOW: Final = "drive"
"""The name of the workflow that drives a run; its id is the id of the run."""
VERSION: Final = "1"
"""The version of that workflow, which all workers know; the versions of strategies are checked by the run itself."""
DEFAULT_QUEUE: Final = "default"
BRANCHES: Final = ".branches"
"""The end of the names of queues of child runs; no other queue may have it."""
MOST_PRIORITY: Final = 1_000_000
NOW_MS: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The time in SQL, as DBOS stores it. The clock of the database alone counts: those of machines differ."""


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


def stored_priority(priority: int) -> int:
    """The priority as DBOS stores it: there, lower numbers come first."""
    if not -MOST_PRIORITY < priority < MOST_PRIORITY:
        raise UsageError(
            f"The priority can't be {priority}: use a number between -{MOST_PRIORITY} and {MOST_PRIORITY}."
        )
    return MOST_PRIORITY - priority
