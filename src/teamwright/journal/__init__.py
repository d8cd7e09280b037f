"""Where runs are recorded: the contract of a journal, and the journals that come with the package.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.errors import FencedOut, JournalCorrupt, JournalError, JournalTooNew, JournalUnavailable, RunIsLive
    from teamwright.journal.memory import MemoryJournal
    from teamwright.journal.protocol import Batch, Committed, InboxItem, Journal
    from teamwright.journal.sqlite.journal import SqliteJournal

__all__ = [
    "Batch",
    "InboxItem",
    "Journal",
    "MemoryJournal",
    "SqliteJournal",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.journal.memory": "MemoryJournal",
        "teamwright.journal.protocol": "Batch InboxItem Journal",
        "teamwright.journal.sqlite.journal": "SqliteJournal",
    },
)
