"""Encodes events, interventions and the status of runs, as rows of a database or as JSON text; nothing is pickled.

A row omits fields at their defaults, so the defaults of recorded facts must never change; add a field instead. Decoding
checks every column for its type, range, size and depth. Invalid data raises `JournalCorrupt` for its run alone; data of
a later version raises `JournalTooNew`. Nothing is guessed, and no row can make another run unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeGuard, cast, get_args

from msgspec import DecodeError
from msgspec.json import Decoder, Encoder
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.errors import JournalCorrupt, JournalTooNew
from teamwright.journal.protocol import RunStatus, damaged
from teamwright.values.events.agent import Body
from teamwright.values.events.event import SCHEMA_VERSION, Event, Fact
from teamwright.values.names import NAME
from teamwright.values.people import Intervention
from teamwright.values.run_keys import key_depth
from teamwright.values.turns.messages import DIGEST_BYTES, digest
from teamwright.values.turns.results import Status, StopReason

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
EventRow = tuple[int, float, str, str, str, str, int | None]
"""The columns of a valid event; a damaged row may contain anything."""
_FIELDS = 7

_LATEST = 221_845_392_000.0
"""The year 9000: later times can't be displayed in every time zone."""
_LONGEST = 1e12
"""The largest plausible sum of seconds or dollars."""
_PLACES = 1 << 31
_INTEGERS = 1 << 63
_DEEPEST = 256
"""The deepest nesting of a fact's JSON. Data of agents may be nested 200 deep, like bodies."""
_DEEPEST_KEY = 1024
"""The most nested scopes: finding the turn around a place walks through all of them."""
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"')
_WHOLE_HASH = re.compile(rf"[0-9a-f]{{{2 * DIGEST_BYTES}}}")
_STATUSES, _REASONS = frozenset(get_args(Status)), frozenset(get_args(StopReason))


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


def body_references(event: Event) -> set[Body]:
    """Return the hashes of the bodies that an event refers to; `delete` keeps those that other runs refer to."""
    return set(references(to_text(event.fact)))


def decode_events(run_id: str, rows: Iterable[EventRow]) -> list[Event]:
    """Decode the rows of one run's events."""
    readers, events = _readers(), list[Event]()
    kind, number = "", 0
    try:
        for position, time, scope, place, kind, data, version in rows:
            number = position % NUMBERS
            if version is not None:
                _check_version(run_id, number, version)
            if (
                time.__class__ is not float
                or not 0.0 <= time <= _LATEST
                or scope.__class__ is not str
                or place.__class__ is not str
                or data.__class__ is not str
                or (len(scope) > _DEEPEST_KEY and key_depth(scope) > _DEEPEST_KEY)
                or (len(place) > _DEEPEST_KEY and key_depth(place) > _DEEPEST_KEY)
                or (len(data) > 2 * _DEEPEST and _is_too_deep(data))
            ):
                raise damaged(run_id, f"event {number} has invalid columns")
            fact = readers[kind](data)
            events.append(Event(run_id, number, time, scope, place, fact, version or FIRST_VERSION))
    except KeyError:
        raise damaged(run_id, f"event {number} is of the unknown kind {_shown(kind)}") from None
    except (DecodeError, RecursionError) as error:
        raise damaged(run_id, f"event {number} can't be read as {_shown(kind)}") from error
    return events


def decode_run(run_id: str, columns: Sequence[object]) -> tuple[int, RunStatus]:
    """Decode a run's place and its saved status; `columns` are the place and the fields of `RunStatus`."""
    if not NAME.fullmatch(run_id):
        raise damaged(run_id, "its id is not a valid one")
    place, number, team, started, status, stop_reason, tokens, usd, seconds, since, last, due, *texts = columns
    valid = (
        is_place(place)
        and _is_count(number, NUMBERS)
        and isinstance(team, str)
        and _is_time(started)
        and (status is None or status in _STATUSES)
        and (stop_reason is None or stop_reason in _REASONS)
        and _is_count(tokens, _INTEGERS)
        and (usd is None or _is_amount(usd))
        and _is_amount(seconds)
        and _is_time(since)
        and _is_time(last)
        and _is_time(due)
        and all(isinstance(text, str) for text in texts)
    )
    if not valid:
        raise damaged(run_id, "its row in the list of runs has invalid columns")
    return cast("int", place), RunStatus(*cast("tuple[Any, ...]", columns[1:]))


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
    return _encode(intervention).decode()


def decode_intervention(run_id: str, item_id: int, data: object) -> Intervention:
    """Return the intervention that `encode_intervention` wrote for an item of this run's inbox.

    A kind that a later version adds must include its `version`.
    """
    if isinstance(data, str) and not (len(data) > 2 * _DEEPEST and _is_too_deep(data)):
        try:
            return _inbox_items().decode(data)
        except DecodeError:
            if _inbox_item_version(data) > SCHEMA_VERSION:
                raise JournalTooNew(
                    f"The inbox of run {run_id!r} contains an item of a newer version of Teamwright:"
                    " update Teamwright to read it."
                ) from None
    raise damaged(run_id, f"entry {item_id} of its inbox can't be read")


def decode_body(text: str) -> JsonValue:
    """Decode the JSON text of a body."""
    try:
        return from_json(text)
    except (ValueError, RecursionError) as error:
        raise JournalCorrupt(
            "A text in the journal is not JSON, so the journal is damaged: restore a backup of it."
        ) from error


def is_place(place: object) -> TypeGuard[int]:
    """Whether this is a valid place of a run."""
    return _is_count(place, _PLACES) and place != 0


def is_body(body: Body, text: str) -> bool:
    """Whether a text matches this hash."""
    return digest(text) == body


def is_hash(body: Body) -> bool:
    """Whether this has the form of a hash."""
    return _WHOLE_HASH.fullmatch(body) is not None


def _is_count(value: object, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def _is_amount(value: object) -> bool:
    return isinstance(value, float | int) and -_LONGEST <= value <= _LONGEST


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, float | int) and 0.0 <= value <= _LATEST)


def _is_too_deep(data: str) -> bool:
    if data.count("[") + data.count("{") <= _DEEPEST:
        return False
    depth = 0
    for character in _STRINGS.sub("", data):
        if character in "[{":
            depth += 1
            if depth > _DEEPEST:
                return True
        elif character in "]}":
            depth -= 1
    return False


def _check_version(run_id: str, number: int, version: object) -> None:
    """Check the schema version of an event, which tells events of a later version from damaged ones."""
    if not _is_count(version, _INTEGERS) or version == 0:
        raise damaged(run_id, f"event {number} has no valid version")
    if cast("int", version) > SCHEMA_VERSION:
        raise JournalTooNew(
            f"Event {number} of run {run_id!r} is of version {version}, written by a newer version of Teamwright:"
            " update Teamwright to read this run."
        )


def _inbox_item_version(data: str) -> int:
    try:
        found = cast("object", from_json(data))
    except ValueError:
        return 0
    version = cast("dict[str, object]", found).get("version") if isinstance(found, dict) else None
    return version if isinstance(version, int) else 0


def _shown(kind: object) -> str:
    """Return a kind for a message, truncated."""
    text = repr(kind)
    return text if len(text) <= 60 else f"{text[:59]}…"


@cache
def _readers() -> dict[str, Callable[[str], Fact]]:
    """The decoder of each kind of fact; the kind itself is in its own column."""
    kinds = cast("tuple[type[Fact], ...]", get_args(Fact))
    return {one.kind: Decoder[Fact](one).decode for one in kinds}


@cache
def _inbox_items() -> Decoder[Intervention]:
    return Decoder(Intervention)
