"""The journal of a cluster, which must be in Postgres."""

from __future__ import annotations

from teamwright.errors import UsageError
from teamwright.journal.location import JOURNAL_VARIABLE, resolve_journal
from teamwright.journal.postgres.journal import PostgresJournal


def cluster_journal(journal: str | None = None) -> PostgresJournal:
    """Return the journal that the machines of a cluster share, not yet open; raises `UsageError` if it is a file."""
    found = resolve_journal(journal)
    if not isinstance(found, PostgresJournal):
        raise UsageError(
            "Queues and workers need a journal in Postgres: give its address with --journal URL, or set"
            f" {JOURNAL_VARIABLE}=postgresql://…"
        )
    return found
