"""Events as rows of a database and back. Rows hold numbers, text and JSON: nothing is pickled.

A row leaves out what is at its default, so defaults of recorded facts must never change; add a field instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import cast, get_args

from msgspec import DecodeError, ValidationError
from msgspec.json import Decoder, Encoder

from teamwright.errors import JournalCorrupt, JournalError, JournalTooNew
from teamwright.values.bulk import collection_paused
from teamwright.values.events import SCHEMA_VERSION, Body, Event, Fact
from teamwright.values.messages import DIGEST_BYTES
from teamwright.values.people import Intervention

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


def to_events(run_id: str, rows: Iterable[tuple[int, float, str, str, str, str, int | None]]) -> list[Event]:
    """The events of one run's rows."""
    readers, events = _readers(), list[Event]()
    kind, number = "", 0
    with collection_paused():
        try:
            for position, time, scope, place, kind, data, version in rows:
                number = position % NUMBERS
                if version is not None and version > SCHEMA_VERSION:
                    raise _too_new(run_id, number, f"of version {version}")
                fact = readers[kind](data)
                events.append(Event(run_id, number, time, scope, place, fact, version or FIRST_VERSION))
        except KeyError:
            raise _too_new(run_id, number, f"of the unknown kind {kind!r}") from None
        except DecodeError as error:
            raise _unreadable(run_id, number, kind, error) from error
    return events


def to_text(fact: Fact) -> str:
    """A fact as JSON text, without its kind and what is at its default."""
    return _encode(fact).decode()


def hold(body: Body, text: str) -> str:
    """A body as a row holds it, behind its hash."""
    return body + text


def together(held: Iterable[str]) -> str:
    """Several bodies in one row."""
    return _RECORD.join(held)


def split(bodies: str) -> list[tuple[Body, str]]:
    """The bodies of one row; mostly there is one."""
    if _RECORD not in bodies:
        return [(bodies[:_HEX], bodies[_HEX:])]
    return [(one[:_HEX], one[_HEX:]) for one in bodies.split(_RECORD)]


def references(data: str) -> list[Body]:
    """The hashes of the bodies that a fact refers to; whatever looks like one counts, so that none is ever missed."""
    return _HASH.findall(data)


def letter_to_text(intervention: Intervention) -> str:
    """An intervention as JSON text."""
    return _encode(intervention).decode()


def letter_from_text(run_id: str, text: str) -> Intervention:
    """The intervention that a row of the inbox holds."""
    try:
        return _letters().decode(text)
    except DecodeError as error:
        raise JournalTooNew(
            f"The inbox of run {run_id!r} holds something that this version of Teamwright does not know: update it."
        ) from error


@cache
def _readers() -> dict[str, Callable[[str], Fact]]:
    """How each kind is read; the kind itself stands in a column of its own."""
    kinds = cast("tuple[type[Fact], ...]", get_args(Fact))
    return {one.kind: Decoder[Fact](one).decode for one in kinds}


@cache
def _letters() -> Decoder[Intervention]:
    return Decoder(Intervention)


def _too_new(run_id: str, number: int, what: str) -> JournalTooNew:
    return JournalTooNew(
        f"Event {number} of run {run_id!r} is {what}, written by a newer version of Teamwright:"
        " update Teamwright to read this run."
    )


def _unreadable(run_id: str, number: int, kind: str, error: DecodeError) -> JournalError:
    if isinstance(error, ValidationError) and "unknown field" in str(error):
        return _too_new(run_id, number, f"of kind {kind!r} with fields that this version does not know")
    return JournalCorrupt(
        f"Event {number} of run {run_id!r} can't be read as {kind!r}: the journal is damaged; restore a backup, or fork"
        f" the run before this event with  teamwright runs fork {run_id}"
    )
