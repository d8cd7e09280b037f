"""Finds a run by its id, a unique prefix of it, or `last`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from teamwright.errors import RunNotFound, UsageError

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.values.results import RunSummary

LAST = "last"


def check_new_id(run_id: str | None) -> None:
    """Reject an id for a new run under which it could never be found."""
    if run_id == LAST:
        raise UsageError(f"{LAST!r} means the newest run, so no run can have it as its id; choose another --run-id.")


async def find_run(journal: Journal, wanted: str) -> RunSummary:
    """Return the run with this id or unique prefix, or raise an error that names the candidates."""
    if wanted != LAST and (exact := await journal.find(wanted)):
        return exact
    if wanted == LAST:
        newest = await journal.top_runs(1)
        if not newest:
            raise UsageError("There are no runs yet; start one with  teamwright run")
        return newest[0]
    return _only(wanted, await journal.runs())


def _only(wanted: str, runs: Sequence[RunSummary]) -> RunSummary:
    matching = [run for run in runs if wanted and run.id.startswith(wanted)]
    found = [run for run in matching if not run.parent] or matching  # the ids of children begin like their parent's
    if len(found) > 1:
        names = ", ".join(run.id for run in found[:6]) + (" …" if len(found) > 6 else "")
        raise UsageError(f"{wanted!r} is a prefix of {len(found)} run ids ({names}); write a longer one.")
    if not found:
        raise RunNotFound(wanted, [run.id for run in runs[:200]])
    return found[0]
