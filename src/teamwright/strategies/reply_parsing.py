"""Reads a value out of a reply: its data first, else JSON in what was said, alone, in a fenced block or in prose.

What does not fit is told in words that may go back to whoever gave the answer, and to nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json

from teamwright.agents.schemas.schema import check
from teamwright.errors import InvalidOutput
from teamwright.values.text.display import cut
from teamwright.values.text.json_scan import JsonScan
from teamwright.values.turns import Reply

T = TypeVar("T")

MOST_CHARACTERS = 200_000
MOST_STARTS = 200
"""Where JSON may begin in prose that is looked at."""
MOST_DIFFERENT = 10
"""Different answers that are told apart; one is wanted, and a text may hold thousands."""

SHOWN_BREACHES = 5
SHOWN_CHARACTERS = 200

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_START = re.compile(r"[{\[]")


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """Why an answer can't be used, in words for the one who gave it."""

    problem: str


def read_answer(reply: Reply, form: TypeAdapter[T]) -> T | ParseFailure:
    """The one value in a reply that has this form."""
    return _read(reply, form.validate_python)


def read_fitting(reply: Reply, schema: Mapping[str, JsonValue]) -> JsonValue | ParseFailure:
    """The one JSON value in a reply that fits this schema."""

    def fit(value: JsonValue) -> JsonValue:
        check(schema, value, "it")
        return value

    return _read(reply, fit)


def found_values(reply: Reply) -> Iterator[list[JsonValue]]:
    """The values that a reply may mean, the surest place first: data, the text, its fenced blocks, its prose."""
    if reply.data is not None:
        yield [reply.data]
    text = reply.text[:MOST_CHARACTERS]
    yield _parsed(text.strip())
    yield [value for block in _FENCE.findall(text) for value in _parsed(block)]
    yield list(_in_prose(text))


def _read(reply: Reply, fit: Callable[[JsonValue], T]) -> T | ParseFailure:
    """Take the first place where exactly one value fits. Two that differ are no answer: nobody knows which is meant."""
    problem = ""
    for values in found_values(reply):
        fitting: list[T] = []
        for value in values:
            try:
                made = fit(value)
            except (ValidationError, InvalidOutput) as error:
                problem = problem or _words(error)
                continue
            if made not in fitting:
                fitting.append(made)
            if len(fitting) > MOST_DIFFERENT:
                return ParseFailure(f"it gives more than {MOST_DIFFERENT} different answers; give one")
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            return ParseFailure(f"it gives {len(fitting)} different answers; give one")
    return ParseFailure(problem or "it holds no JSON")


def _parsed(text: str) -> list[JsonValue]:
    """A text that is JSON as a whole, as the only item; else nothing."""
    try:
        return [cast("JsonValue", from_json(text, allow_inf_nan=False))]
    except ValueError:
        return []


def _in_prose(text: str) -> Iterator[JsonValue]:
    """The objects and lists that stand in a text, outermost only."""
    scan, end = JsonScan(text), 0
    for _ in range(MOST_STARTS):
        if (start := _START.search(text, end)) is None:
            return
        found = scan.at(start.start())
        end = start.end() if found is None else found.end
        if found is not None:
            # Again, since this refuses numbers and texts that are no JSON.
            yield from _parsed(text[start.start() : end])


def _words(error: ValidationError | InvalidOutput) -> str:
    """How a value breaks its form."""
    if isinstance(error, InvalidOutput):
        return str(error).rstrip(".")
    found = error.errors(include_url=False, include_input=False, include_context=False)
    told = [_breach(one["loc"], one["msg"]) for one in found[:SHOWN_BREACHES]]
    if len(found) > SHOWN_BREACHES:
        told.append(f"and {len(found) - SHOWN_BREACHES} more")
    return "; ".join(told)


def _breach(place: tuple[int | str, ...], message: str) -> str:
    said = cut(message.removeprefix("Value error, "), SHOWN_CHARACTERS)
    return f"at {'/'.join(map(str, place))!r}: {said}" if place else said
