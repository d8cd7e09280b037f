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

_HASH = re.compile(rf"(?<![0-9a-f])[0-9a-f]{{{2 * DIGEST_BYTES}}}(?![0-9a-f])")

_encode = Encoder().encode

Row = tuple[int, float, str, str, str, str, int | None]
"""Position, time, scope, place, kind, data, version."""


def to_row(event: Event, run: int) -> Row:
    """The row of an event of the run at place `run`."""
    fact, version = event.fact, event.version
    return (
        run * NUMBERS + event.number, event.time, event.scope, event.place, fact.kind, to_text(fact),
        None if version == FIRST_VERSION else version,
    )  # fmt: skip


def to_events(run_id: str, rows: Iterable[Row]) -> list[Event]:
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


def references(texts: Iterable[str]) -> set[Body]:
    """The hashes of all bodies that facts refer to; whatever looks like a hash counts, so that none is ever missed."""
    find = _HASH.findall
    return {one for text in texts for one in find(text)}


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
