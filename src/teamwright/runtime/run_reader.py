"""Reads one run from a journal: its events, or the record that a replay needs."""

from __future__ import annotations

from collections.abc import Collection

from teamwright.history.event_texts import Texts, bodies_of, texts_of
from teamwright.history.record.asks import RecordedBodies
from teamwright.history.record.run_record import EFFECTS, RunRecord, check_record
from teamwright.journal.protocol import Journal
from teamwright.runtime.deleted_run import deleted_is_not_found, run_not_found
from teamwright.values.events.event import Event, fold


async def read_events(journal: Journal, run_id: str, without: Collection[str] = ()) -> list[Event]:
    """Return the run's events except those of the kinds `without`; raises `RunNotFound` if there are none."""
    events = await journal.read(run_id, without=without)
    if not events:
        raise await run_not_found(journal, run_id)
    return events


async def read_record(journal: Journal, run_id: str) -> RunRecord:
    """Return what a replay needs, without the effects of ended turns, which make up most of a long record."""
    async with deleted_is_not_found(journal, run_id):
        events = await read_events(journal, run_id, without=EFFECTS)
        check_record(events, whole=False)
        record = RunRecord.from_events(events)
        later = await journal.read(run_id, record.first_open_turn())
        # A driver that has lost its lock, and does not know it yet, may have written between the two reads.
        fold((event for event in later if event.number > events[-1].number and event.kind not in EFFECTS), record)
        first = record.first_open_turn()
        for event in later:
            if event.kind in EFFECTS and event.number > first:
                record.apply_effect(event)
        record.bodies = RecordedBodies(await journal.bodies(record.needed_bodies()))
        return record


async def read_texts(journal: Journal, event: Event) -> Texts:
    """Return the texts that an event refers to, by name."""
    async with deleted_is_not_found(journal, event.run_id):
        return texts_of(event, RecordedBodies(await journal.bodies(set(bodies_of(event)))))
