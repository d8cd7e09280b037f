"""What a condition or a template may do with a value: filters and tests over JSON, and nothing else.

Each is a plain function that ends after work in proportion to what it is given, and makes nothing much larger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeGuard

from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.errors import ExpressionFailed
from teamwright.values.text.display import cut

MOST_SHOWN = 60
MOST_DIGITS = 12
MOST_JOINED = 1_000_000
ITEM = 20
"""What an item of a list or a field of an object counts, beside what stands there."""
LARGEST = 10**18

Number = int | float


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """A filter or a test, and how many arguments it takes besides its value."""

    function: Callable[[JsonValue, Sequence[JsonValue]], JsonValue]
    least: int = 0
    most: int = 0
    glance: bool = False
    """Whether it takes the same time for every value."""


def described(value: JsonValue) -> str:
    """A value in words, for an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {cut(value, MOST_SHOWN)!r}"
        case int() | float():
            return f"the number {value:.6g}" if isinstance(value, float) else _whole(value)
        case list():
            return "a list"
        case _:
            return "an object"


def _whole(value: int) -> str:
    return f"the number {value}" if abs(value) <= LARGEST else "a huge number"


def printed(value: JsonValue) -> str:
    """A value as a template prints it: texts as they are, everything else as JSON. Null is no text."""
    if isinstance(value, str):
        return value
    if value is None:
        raise ExpressionFailed("null can't be printed; say what to print instead with  | default('…')")
    return tojson(value)


def is_number(value: JsonValue) -> TypeGuard[Number]:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: JsonValue) -> Number:
    """The value, if it is a number of a reasonable size."""
    if not is_number(value):
        raise ExpressionFailed(f"a number is needed, not {described(value)}")
    if not isfinite(value) or abs(value) > LARGEST:
        raise ExpressionFailed(f"numbers go up to {LARGEST:.0e} here")
    return value


def text(value: JsonValue) -> str:
    """The value, if it is a text."""
    if not isinstance(value, str):
        raise ExpressionFailed(f"a text is needed, not {described(value)}")
    return value


def items(value: JsonValue) -> list[JsonValue]:
    """The value, if it is a list."""
    if not isinstance(value, list):
        raise ExpressionFailed(f"a list is needed, not {described(value)}")
    return value


def tojson(value: JsonValue) -> str:
    """The value as JSON."""
    try:
        return to_json(value).decode()
    except ValueError as error:
        raise ExpressionFailed(f"it can't be written as JSON: {error}") from error


def _round(value: JsonValue, digits: JsonValue = 0) -> Number:
    places = number(digits)
    if not isinstance(places, int) or not 0 <= places <= MOST_DIGITS:
        raise ExpressionFailed(f"round takes 0 to {MOST_DIGITS} digits, not {described(digits)}")
    return round(number(value), places)


def _number_in(value: JsonValue) -> Number:
    """A number as it is, or the number that a text spells; anything else is no number, and never 0 instead."""
    if not isinstance(value, str):
        return number(value)
    if len(value) <= MOST_SHOWN:
        for read in (int, float):
            try:
                return number(read(value))
            except ValueError:
                continue
    raise ExpressionFailed(f"{described(value)} is no number")


def _length(value: JsonValue) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise ExpressionFailed(f"{described(value)} has no length")


def _end(value: JsonValue, index: int) -> JsonValue:
    held = value if isinstance(value, str) else items(value)
    if not held:
        raise ExpressionFailed(f"{'an empty text' if isinstance(held, str) else 'an empty list'} has no first or last")
    return held[index]


def _numbers(value: JsonValue) -> list[Number]:
    found = [number(item) for item in items(value)]
    if not found:
        raise ExpressionFailed("an empty list has no numbers")
    return found


def _join(value: JsonValue, separator: JsonValue = "", field: JsonValue = None) -> str:
    """The items of a list in one text; with a field's name, that field of each."""
    held, between = items(value), text(separator)
    if len(between) * len(held) > MOST_JOINED:
        raise ExpressionFailed(f"a list of {len(held)} can't be joined by a text of {len(between)} characters")
    if field is not None:
        held = [_field(item, text(field)) for item in held]
    return between.join([printed(item) for item in held])


def _field(item: JsonValue, name: str) -> JsonValue:
    if not isinstance(item, dict) or name not in item:
        raise ExpressionFailed(f"{described(item)} has no field {name!r}")
    return item[name]


def _truncate(value: JsonValue, length: JsonValue) -> str:
    most = number(length)
    if not isinstance(most, int) or most < 1:
        raise ExpressionFailed(f"truncate takes a whole number of characters, not {described(length)}")
    return cut(text(value), most)


DEFAULT = "default"
"""The one filter that takes a value that is missing; the evaluation itself does it."""

FILTERS: Mapping[str, FilterSpec] = {
    "abs": FilterSpec(lambda value, _: abs(number(value))),
    DEFAULT: FilterSpec(lambda value, given: given[0] if value is None else value, 1, 1, glance=True),
    "first": FilterSpec(lambda value, _: _end(value, 0), glance=True),
    "float": FilterSpec(lambda value, _: float(_number_in(value))),
    "int": FilterSpec(lambda value, _: int(_number_in(value))),
    "join": FilterSpec(lambda value, given: _join(value, *given), 0, 2),
    "last": FilterSpec(lambda value, _: _end(value, -1), glance=True),
    "length": FilterSpec(lambda value, _: _length(value), glance=True),
    "lower": FilterSpec(lambda value, _: text(value).lower()),
    "max": FilterSpec(lambda value, _: max(_numbers(value))),
    "min": FilterSpec(lambda value, _: min(_numbers(value))),
    "round": FilterSpec(lambda value, given: _round(value, *given), 0, 1),
    "sum": FilterSpec(lambda value, _: number(sum(_numbers(value)))),
    "tojson": FilterSpec(lambda value, _: tojson(value)),
    "trim": FilterSpec(lambda value, _: text(value).strip()),
    "truncate": FilterSpec(lambda value, given: _truncate(value, *given), 1, 1),
    "upper": FilterSpec(lambda value, _: text(value).upper()),
}

DEFINED = "defined"
"""The one test of a value that may be missing; the evaluation itself does it."""

TESTS: Mapping[str, FilterSpec] = {
    "boolean": FilterSpec(lambda value, _: isinstance(value, bool), glance=True),
    DEFINED: FilterSpec(lambda _value, _: True),
    "endingwith": FilterSpec(lambda value, given: text(value).endswith(text(given[0])), 1, 1),
    "list": FilterSpec(lambda value, _: isinstance(value, list), glance=True),
    "mapping": FilterSpec(lambda value, _: isinstance(value, dict), glance=True),
    "none": FilterSpec(lambda value, _: value is None, glance=True),
    "number": FilterSpec(lambda value, _: is_number(value), glance=True),
    "startingwith": FilterSpec(lambda value, given: text(value).startswith(text(given[0])), 1, 1),
    "string": FilterSpec(lambda value, _: isinstance(value, str), glance=True),
}


def weight(value: JsonValue, most: int) -> int:
    """About how much work it is to go through a value once, in characters.

    A value that refers to others many times over may be larger than memory when it is written out; so the count stops
    once it is above `most`.
    """
    if isinstance(value, str):
        return len(value)
    total = 1
    open_: list[JsonValue] = [value]
    while open_ and total <= most:
        one = open_.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, list | dict):
            total += ITEM * len(one)
            if total <= most:
                open_.extend(one if isinstance(one, list) else one.values())
    return total
