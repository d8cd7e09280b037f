"""Journals, which record runs: the protocol, the built-in journals, and the parts for a journal of your own.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.errors import FencedOut, JournalCorrupt, JournalError, JournalTooNew, JournalUnavailable, RunIsLive
    from teamwright.journal.codec import (
        body_references,
        decode_event,
        decode_intervention,
        encode_event,
        encode_intervention,
    )
    from teamwright.journal.memory import MemoryJournal, MemoryNotes
    from teamwright.journal.protocol import (
        Batch,
        Committed,
        InboxItem,
        Journal,
        fenced_out,
        missing_bodies,
        missing_source,
    )
    from teamwright.journal.run_status import RunStatus
    from teamwright.journal.sqlite.journal import SqliteJournal
    from teamwright.journal.stores import BudgetClaim, Budgets, Note, Notes, TenantBudget, TokenRates
    from teamwright.values.events.agent import Body
    from teamwright.values.turns.results import RunSummary

__all__ = [
    "Batch",
    "Body",
    "BudgetClaim",
    "Budgets",
    "Committed",
    "FencedOut",
    "InboxItem",
    "Journal",
    "JournalCorrupt",
    "JournalError",
    "JournalTooNew",
    "JournalUnavailable",
    "MemoryJournal",
    "MemoryNotes",
    "Note",
    "Notes",
    "RunIsLive",
    "RunStatus",
    "RunSummary",
    "SqliteJournal",
    "TenantBudget",
    "TokenRates",
    "body_references",
    "decode_event",
    "decode_intervention",
    "encode_event",
    "encode_intervention",
    "fenced_out",
    "missing_bodies",
    "missing_source",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.errors": "FencedOut JournalCorrupt JournalError JournalTooNew JournalUnavailable RunIsLive",
        "teamwright.journal.codec": """
            body_references decode_event decode_intervention encode_event encode_intervention
        """,
        "teamwright.journal.memory": "MemoryJournal MemoryNotes",
        "teamwright.journal.protocol": "Batch Committed InboxItem Journal fenced_out missing_bodies missing_source",
        "teamwright.journal.run_status": "RunStatus",
        "teamwright.journal.sqlite.journal": "SqliteJournal",
        "teamwright.journal.stores": "BudgetClaim Budgets Note Notes TenantBudget TokenRates",
        "teamwright.values.events.agent": "Body",
        "teamwright.values.turns.results": "RunSummary",
    },
)
