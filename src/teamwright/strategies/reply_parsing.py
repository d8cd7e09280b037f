"""Reads a value from a reply: from its data or else from JSON in its text, bare, in a fenced block or in prose.

The text of a parse failure may go back to the author of the reply, and to no other member.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json

from teamwright.errors import InvalidOutput
from teamwright.values.text.display import cut
from teamwright.values.turns.turn import Reply
from teamwright.values.typed_data import JsonScan

T = TypeVar("T")

MOST_CHARACTERS = 200_000
MOST_STARTS = 200
"""How many possible starts of JSON in prose are tried."""
MOST_DIFFERENT = 10
"""How many different answers are compared before parsing gives up: a text may contain thousands."""

SHOWN_BREACHES = 5
SHOWN_CHARACTERS = 200

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_START = re.compile(r"[{\[]")


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """Why a reply could not be parsed, worded for its author."""

    problem: str


def read_answer(reply: Reply, form: TypeAdapter[T]) -> T | ParseFailure:
    """Return the one value of this type in a reply."""
    return read_valid(reply, form.validate_python)


def candidate_values(reply: Reply) -> Iterator[list[JsonValue]]:
    """Yield the values a reply may mean, most reliable source first: data, the text, its fenced blocks, its prose."""
    if reply.data is not None:
        yield [reply.data]
    text = reply.text[:MOST_CHARACTERS]
    yield _parse(text.strip())
    yield [value for block in _FENCE.findall(text) for value in _parse(block)]
    yield list(_in_prose(text))


def read_valid(reply: Reply, validate: Callable[[JsonValue], T]) -> T | ParseFailure:
    """Return the value of the first source with exactly one valid value. Two different ones are ambiguous.

    `validate` raises `ValidationError` or `InvalidOutput` for any other value.
    """
    problem = ""
    for values in candidate_values(reply):
        valid: list[T] = []
        for value in values:
            try:
                parsed = validate(value)
            except (ValidationError, InvalidOutput) as error:
                problem = problem or _error_text(error)
                continue
            if parsed not in valid:
                valid.append(parsed)
            if len(valid) > MOST_DIFFERENT:
                return ParseFailure(f"it gives more than {MOST_DIFFERENT} different answers; give one")
        if len(valid) == 1:
            return valid[0]
        if valid:
            return ParseFailure(f"it gives {len(valid)} different answers; give one")
    return ParseFailure(problem or "it holds no JSON")


def _parse(text: str) -> list[JsonValue]:
    """Return the value of a text that is JSON as a whole, as a list of one; otherwise an empty list."""
    try:
        return [cast("JsonValue", from_json(text, allow_inf_nan=False))]
    except ValueError:
        return []


def _in_prose(text: str) -> Iterator[JsonValue]:
    """Yield the outermost JSON objects and lists in a text."""
    scan, end = JsonScan(text), 0
    for _ in range(MOST_STARTS):
        if (start := _START.search(text, end)) is None:
            return
        found = scan.at(start.start())
        end = start.end() if found is None else found.end
        if found is not None:
            # Parse again: the scan accepts some numbers and strings that are not valid JSON.
            yield from _parse(text[start.start() : end])


def _error_text(error: ValidationError | InvalidOutput) -> str:
    """Return a short description of a validation error."""
    if isinstance(error, InvalidOutput):
        return str(error).rstrip(".")
    found = error.errors(include_url=False, include_input=False, include_context=False)
    shown = [_breach(one["loc"], one["msg"]) for one in found[:SHOWN_BREACHES]]
    if len(found) > SHOWN_BREACHES:
        shown.append(f"and {len(found) - SHOWN_BREACHES} more")
    return "; ".join(shown)


def _breach(place: tuple[int | str, ...], message: str) -> str:
    plain = message.removeprefix("Value error, ").replace("Tuple", "List").replace("tuple", "list")  # as JSON has it
    text = cut(plain, SHOWN_CHARACTERS)
    return f"at {'/'.join(map(str, place))!r}: {text}" if place else text
