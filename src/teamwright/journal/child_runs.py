"""Child runs: branches that a run has placed on workers, each a run of its own.

The figures of a run include those of its children, so a sum over runs takes `top_runs` alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from teamwright.journal.protocol import JournalReader
from teamwright.values.results import RunSummary

GROWTH = 4
"""How many more runs are read if too many of the newest are children."""


@runtime_checkable
class FindsChildren(Protocol):
    """A journal that finds children without reading all runs."""

    async def children(self, run_ids: Collection[str]) -> list[RunSummary]:
        """Return the children of these runs, newest first."""
        ...


async def child_runs(journal: JournalReader, run_ids: Collection[str]) -> list[RunSummary]:
    """Return the children of these runs, newest first, without the children of children."""
    if not run_ids:
        return []
    if isinstance(journal, FindsChildren):
        return await journal.children(run_ids)
    return [run for run in await journal.runs() if run.parent and run.parent in run_ids]


async def descendant_runs(journal: JournalReader, run_ids: Collection[str]) -> list[RunSummary]:
    """Return the children of these runs, and the children of children."""
    found: list[RunSummary] = []
    while run_ids:
        children = await child_runs(journal, run_ids)
        found += children
        run_ids = {run.id for run in children}
    return found


async def top_runs(journal: JournalReader, limit: int | None = None) -> list[RunSummary]:
    """Return the runs that are no children, or the `limit` newest of them, newest first."""
    size = limit
    while True:
        runs = await journal.runs(size)
        found = [run for run in runs if not run.parent]
        if size is None or limit is None or len(found) >= limit or len(runs) < size:
            return found[:limit]
        size *= GROWTH
