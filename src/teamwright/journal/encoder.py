"""Values as rows of a database; `decoder.py` is the way back. Rows hold numbers, text and JSON: nothing is pickled.

A row leaves out what is at its default, so defaults of recorded facts must never change; add a field instead.
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
"""How many events a run may have: a row's position is its run's place times this, plus its number."""

FIRST_VERSION = 1
"""A row without a version has this one, for ever."""

_RECORD = "\x1e"
"""What stands between the bodies of one row, which no JSON text holds."""
_HEX = 2 * DIGEST_BYTES
_HASH = re.compile(rf"(?<![0-9a-f])[0-9a-f]{{{_HEX}}}(?![0-9a-f])")

_encode = Encoder().encode

EVENT = "position, time, scope, place, kind, data, version"
Row = tuple[int, float, str, str, str, str, int | None, str | None]
"""The columns of an event, and last the bodies that came with it."""


def to_row(position: int, event: Event, bodies: str | None) -> Row:
    """The row of an event at this position."""
    fact, version = event.fact, event.version
    return (
        position, event.time, event.scope, event.place, fact.kind, _encode(fact).decode(),
        None if version == FIRST_VERSION else version, bodies,
    )  # fmt: skip


def to_text(fact: Fact) -> str:
    """A fact as JSON text, without its kind and what is at its default."""
    return _encode(fact).decode()


def hold(body: Body, text: str) -> str:
    """A body as a row holds it, behind its hash."""
    return body + text


def together(held: Iterable[str]) -> str:
    """Several bodies in one row."""
    return _RECORD.join(held)


def split(bodies: object) -> list[tuple[Body, str]]:
    """The bodies of one row, mostly one; none, where the row is damaged, so that other rows are found all the same."""
    if not isinstance(bodies, str):
        return []
    if _RECORD not in bodies:
        return [(bodies[:_HEX], bodies[_HEX:])]
    return [(one[:_HEX], one[_HEX:]) for one in bodies.split(_RECORD)]


def references(data: object) -> list[Body]:
    """The hashes of the bodies that a fact refers to; whatever looks like one counts, so that none is ever missed."""
    return _HASH.findall(data) if isinstance(data, str) else []


def inbox_item_to_text(intervention: Intervention) -> str:
    """An intervention as JSON text."""
    return _encode(intervention).decode()
