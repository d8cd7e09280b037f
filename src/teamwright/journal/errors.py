"""What every journal says when it refuses, in the same words."""

from __future__ import annotations

from collections.abc import Collection

from teamwright.errors import FencedOut, JournalCorrupt
from teamwright.values.events.body import Body


def fenced_out(run_id: str) -> FencedOut:
    """The refusal of a batch that another driver's events have overtaken."""
    return FencedOut(
        f"Run {run_id!r} is driven by another process now, so this one stops; what it recorded is kept."
        f" Follow it with  teamwright runs tail {run_id}"
    )


def missing_bodies(hashes: Collection[Body]) -> JournalCorrupt:
    """The refusal to hand out bodies that are not there, or not as they were written."""
    return JournalCorrupt(
        f"The journal is damaged: {len(hashes)} of the texts that a run refers to are missing or altered, for example"
        f" {min(hashes)[:40]!r}. Restore a backup of the journal, or start the run anew."
    )


def missing_source(run_id: str) -> JournalCorrupt:
    """The refusal of a fork whose run is not there any more."""
    return JournalCorrupt(f"Run {run_id!r}, which is being forked, is not in the journal any more.")


def damaged(run_id: str, what: str) -> JournalCorrupt:
    """The refusal to read a run whose record is not as it was written."""
    return JournalCorrupt(
        f"The record of run {run_id[:100]!r} is damaged ({what}): restore a backup of the journal, or start the run"
        " anew; other runs are not affected."
    )
