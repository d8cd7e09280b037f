"""Encodes values as database rows; `decoder.py` is the inverse. Rows contain numbers, text and JSON, never pickles.

A row omits fields at their defaults, so the defaults of recorded facts must never change; add a field instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.json import Encoder

from teamwright.values.events.body import Body
from teamwright.values.events.event import Event, Fact
from teamwright.values.people.interventions import Intervention
from teamwright.values.turns.messages import DIGEST_BYTES

NUMBERS = 1 << 32
"""The most events of a run: the position of a row is the run's place times this, plus the event number."""

FIRST_VERSION = 1
"""The version of a row without one; it must never change."""

_RECORD = "\x1e"
"""The separator between the bodies of one row; JSON text can't contain it."""
_HEX = 2 * DIGEST_BYTES
_HASH = re.compile(rf'"([0-9a-f]{{{_HEX}}})"(?<!"digest":"[0-9a-f]{{{_HEX}}}")')
"""Each string of JSON that looks like the hash of a body, except the digest of a turn, which looks the same."""

_encode = Encoder().encode

EVENT_COLUMNS = "position, time, scope, place, kind, data, version"
Row = tuple[int, float, str, str, str, str, int | None, str | None]
"""The columns of an event, and last the bodies stored with it."""


def to_row(position: int, event: Event, bodies: str | None) -> Row:
    """Return the row of an event at this position."""
    fact, version = event.fact, event.version
    return (
        position, event.time, event.scope, event.place, fact.kind, _encode(fact).decode(),
        None if version == FIRST_VERSION else version, bodies,
    )  # fmt: skip


def to_text(fact: Fact) -> str:
    """Encode a fact as JSON text, without its kind and fields at their defaults."""
    return _encode(fact).decode()


def pack_body(body: Body, text: str) -> str:
    """Prefix a body with its hash, as rows store it."""
    return body + text


def join_bodies(held: Iterable[str]) -> str:
    """Join packed bodies for one row."""
    return _RECORD.join(held)


def split_bodies(bodies: object) -> list[tuple[Body, str]]:
    """Split the bodies of one row, mostly one. A damaged row has none, so that other rows are still found."""
    if not isinstance(bodies, str):
        return []
    if _RECORD not in bodies:
        return [(bodies[:_HEX], bodies[_HEX:])]
    return [(one[:_HEX], one[_HEX:]) for one in bodies.split(_RECORD)]


def references(data: object) -> list[Body]:
    """Return the hashes of bodies in a fact's JSON; each string that looks like one counts, so that none is missed."""
    return _HASH.findall(data) if isinstance(data, str) else []


def inbox_item_to_text(intervention: Intervention) -> str:
    """Encode an intervention as JSON text."""
    return _encode(intervention).decode()
