"""Events as rows of a database and back. Rows hold numbers, text and JSON: nothing is pickled.

A row leaves out what is at its default, so defaults of recorded facts must never change; add a field instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import cast, get_args

from pydantic import TypeAdapter, ValidationError

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

Row = tuple[int, float, str, str, str, str, int | None]
"""Position, time, scope, place, kind, data, version."""


def to_row(event: Event, run: int) -> Row:
    """The row of an event of the run at place `run`."""
    run_id, number, time, scope, place, fact, version = event
    del run_id
    return (
        run * NUMBERS + number, time, scope, place, fact.kind, to_text(fact),
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
        except ValidationError as error:
            raise _unreadable(run_id, number, kind, error) from error
    return events


def to_text(fact: Fact) -> str:
    """A fact as JSON text. Defaults are left out, its kind among them; within an intervention the kind must stay."""
    bare = fact.kind != "run.intervened"
    return fact.__pydantic_serializer__.to_json(fact, exclude_defaults=bare, round_trip=True).decode()


def references(texts: Iterable[str]) -> set[Body]:
    """The hashes of all bodies that facts refer to; whatever looks like a hash counts, so that none is ever missed."""
    find = _HASH.findall
    return {one for text in texts for one in find(text)}


def letter_to_text(intervention: Intervention) -> str:
    """An intervention as JSON text."""
    return intervention.model_dump_json(round_trip=True)


def letter_from_text(run_id: str, text: str) -> Intervention:
    """The intervention that a row of the inbox holds."""
    try:
        return _letters().validate_json(text)
    except ValidationError as error:
        raise JournalTooNew(
            f"The inbox of run {run_id!r} holds something that this version of Teamwright does not know: update it."
        ) from error


@cache
def _readers() -> dict[str, Callable[[str], Fact]]:
    """One validator per kind: twice as fast as one for the whole union."""
    kinds = cast("tuple[type[Fact], ...]", get_args(get_args(Fact)[0]))
    adapters = {one.model_fields["kind"].default: TypeAdapter[Fact](one) for one in kinds}
    return {kind: adapter.validator.validate_json for kind, adapter in adapters.items()}


@cache
def _letters() -> TypeAdapter[Intervention]:
    return TypeAdapter(Intervention)


def _too_new(run_id: str, number: int, what: str) -> JournalTooNew:
    return JournalTooNew(
        f"Event {number} of run {run_id!r} is {what}, written by a newer version of Teamwright:"
        " update Teamwright to read this run."
    )


def _unreadable(run_id: str, number: int, kind: str, error: ValidationError) -> JournalError:
    if all(one["type"] == "extra_forbidden" for one in error.errors()):
        return _too_new(run_id, number, f"of kind {kind!r} with fields that this version does not know")
    return JournalCorrupt(
        f"Event {number} of run {run_id!r} can't be read as {kind!r}: the journal is damaged; restore a backup, or fork"
        f" the run before this event with  teamwright runs fork {run_id}"
    )
