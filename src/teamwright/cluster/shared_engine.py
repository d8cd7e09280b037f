"""The parts of an engine over a journal in Postgres: limits kept together with others, and branches on workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from teamwright.cluster.limits.limits import ClusterLimits
from teamwright.cluster.placement.worker_placement import WorkerPlacement

if TYPE_CHECKING:
    from teamwright.journal.postgres.journal import PostgresJournal


class EngineParts(TypedDict):
    """Arguments of an engine."""

    shared: ClusterLimits
    placement: WorkerPlacement


def engine_parts(url: str, journal: PostgresJournal | None = None) -> EngineParts:
    """Return the shared parts of an engine over the database at this URL, for its journal if it is open."""
    return EngineParts(shared=ClusterLimits(url), placement=WorkerPlacement(journal=journal))
