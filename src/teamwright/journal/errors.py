"""The errors that every journal raises, with the same messages."""

from __future__ import annotations

from collections.abc import Collection

from teamwright.errors import EventsLost, FencedOut, JournalCorrupt
from teamwright.values.events.body import Body


def fenced_out(run_id: str) -> FencedOut:
    """The error of a batch whose numbers another driver has used."""
    return FencedOut(
        f"Run {run_id!r} is driven by another process now, so this one stops; what it recorded is kept."
        f" Follow it with  teamwright runs tail {run_id}"
    )


def events_lost(run_id: str, number: int) -> EventsLost:
    """The error of a batch whose predecessor is gone, or is another event than the one that was committed."""
    return EventsLost(
        f"The journal has lost event {number} of run {run_id!r}, which it had confirmed: its server was replaced by a"
        " replica that lagged behind, or restored from a backup. So the run stops, and what it did since may not be"
        f" recorded. Calls that are not recorded are made again with  teamwright runs resume {run_id}"
    )


def missing_bodies(hashes: Collection[Body]) -> JournalCorrupt:
    """The error of bodies that are missing or do not match their hash."""
    return JournalCorrupt(
        f"The journal is damaged: {len(hashes)} of the texts that a run refers to are missing or altered, for example"
        f" {min(hashes)[:40]!r}. Restore a backup of the journal, or start the run again."
    )


def missing_source(run_id: str) -> JournalCorrupt:
    """The error of a fork whose source run no longer exists."""
    return JournalCorrupt(f"Run {run_id!r}, which is being forked, is no longer in the journal.")


def damaged(run_id: str, what: str) -> JournalCorrupt:
    """The error of a run whose record is invalid."""
    return JournalCorrupt(
        f"The record of run {run_id[:100]!r} is damaged ({what}): restore a backup of the journal, or start the run"
        " again; other runs are not affected."
    )
