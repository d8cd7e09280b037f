from teamwright.journal.agent_notes import Notes as Notes
from teamwright.journal.codec import (
    body_references as body_references,
    decode_event as decode_event,
    decode_intervention as decode_intervention,
    encode_event as encode_event,
    encode_intervention as encode_intervention,
)
from teamwright.journal.in_memory_journal import MemoryJournal as MemoryJournal
from teamwright.journal.protocol import (
    Batch as Batch,
    Committed as Committed,
    InboxItem as InboxItem,
    Journal as Journal,
    RunStatus as RunStatus,
    TokenRates as TokenRates,
    fenced_out as fenced_out,
    missing_bodies as missing_bodies,
    missing_source as missing_source,
)
from teamwright.journal.run_filter import RecentRuns as RecentRuns, RunFilter as RunFilter
from teamwright.journal.sqlite.journal import SqliteJournal as SqliteJournal
from teamwright.journal.tenant_budgets import Budgets as Budgets
from teamwright.values.events.agent import Body as Body
