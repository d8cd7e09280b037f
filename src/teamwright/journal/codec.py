"""Encodes events and interventions as JSON text, for journals that store text: files, queues, other databases.

Decoding checks every field. Invalid data raises `JournalCorrupt`; data of a later version raises `JournalTooNew`.
"""

from __future__ import annotations

from typing import cast

from pydantic_core import from_json, to_json

from teamwright.journal.decoder import EventRow, decode_events, decode_inbox_item
from teamwright.journal.encoder import NUMBERS, inbox_item_to_text, references, to_row, to_text
from teamwright.journal.errors import damaged
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.people.interventions import Intervention

_FIELDS = 7


def encode_event(event: Event) -> str:
    """Return the event as one line of JSON, without its run id."""
    return to_json(to_row(event.number, event, None)[:_FIELDS]).decode()


def decode_event(run_id: str, text: str) -> Event:
    """Return the event that `encode_event` wrote for this run."""
    try:
        row = cast("object", from_json(text))
    except ValueError as error:
        raise damaged(run_id, "an event is not JSON") from error
    if not isinstance(row, list) or len(cast("list[object]", row)) != _FIELDS:
        raise damaged(run_id, "an event does not have its seven fields")
    number, *rest = cast("list[object]", row)
    if not isinstance(number, int) or not 0 <= number < NUMBERS:
        raise damaged(run_id, "an event has no valid number")
    return decode_events(run_id, [cast("EventRow", (number, *rest))])[0]


def encode_intervention(intervention: Intervention) -> str:
    """Return the intervention as one line of JSON."""
    return inbox_item_to_text(intervention)


def decode_intervention(run_id: str, item_id: int, text: str) -> Intervention:
    """Return the intervention that `encode_intervention` wrote for an item of this run's inbox."""
    return decode_inbox_item(run_id, item_id, text)


def body_references(event: Event) -> set[Body]:
    """Return the hashes of the bodies that an event refers to; `delete` keeps those that other runs refer to."""
    return set(references(to_text(event.fact)))
