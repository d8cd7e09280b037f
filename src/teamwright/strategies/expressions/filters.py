"""Filters and tests of conditions and templates: functions over JSON values.

Each one takes time in proportion to its input, and returns nothing much larger.
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
"""The cost of an item of a list or a field of an object, besides its content."""
LARGEST = 10**18

Number = int | float


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """A filter or a test, and how many arguments it takes besides its value."""

    function: Callable[[JsonValue, Sequence[JsonValue]], JsonValue]
    least: int = 0
    most: int = 0
    constant_time: bool = False
    """Whether it takes constant time for every value."""


def describe(value: JsonValue) -> str:
    """Return a description of a value for error messages."""
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


def format_value(value: JsonValue) -> str:
    """Return a value as a template prints it: texts unchanged, other values as JSON. Null is an error."""
    if isinstance(value, str):
        return value
    if value is None:
        raise ExpressionFailed("null can't be printed; give another value with  | default('…')")
    return tojson(value)


def is_number(value: JsonValue) -> TypeGuard[Number]:
    """Return whether a value is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def require_number(value: JsonValue) -> Number:
    """Return the value if it is a number of reasonable size."""
    if not is_number(value):
        raise ExpressionFailed(f"a number is needed, not {describe(value)}")
    if not isfinite(value) or abs(value) > LARGEST:
        raise ExpressionFailed(f"numbers go up to {LARGEST:.0e} here")
    return value


def require_text(value: JsonValue) -> str:
    """Return the value if it is a text."""
    if not isinstance(value, str):
        raise ExpressionFailed(f"a text is needed, not {describe(value)}")
    return value


def require_list(value: JsonValue) -> list[JsonValue]:
    """Return the value if it is a list."""
    if not isinstance(value, list):
        raise ExpressionFailed(f"a list is needed, not {describe(value)}")
    return value


def tojson(value: JsonValue) -> str:
    """Return the value as JSON."""
    try:
        return to_json(value).decode()
    except ValueError as error:
        raise ExpressionFailed(f"it can't be written as JSON: {error}") from error


def _round(value: JsonValue, digits: JsonValue = 0) -> Number:
    places = require_number(digits)
    if not isinstance(places, int) or not 0 <= places <= MOST_DIGITS:
        raise ExpressionFailed(f"round takes 0 to {MOST_DIGITS} digits, not {describe(digits)}")
    return round(require_number(value), places)


def _parse_number(value: JsonValue) -> Number:
    """Return a number, or the number that a text spells; any other value is an error, never 0."""
    if not isinstance(value, str):
        return require_number(value)
    if len(value) <= MOST_SHOWN:
        for read in (int, float):
            try:
                return require_number(read(value))
            except ValueError:
                continue
    raise ExpressionFailed(f"{describe(value)} is not a number")


def _length(value: JsonValue) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise ExpressionFailed(f"{describe(value)} has no length")


def _end(value: JsonValue, index: int) -> JsonValue:
    values = value if isinstance(value, str) else require_list(value)
    if not values:
        raise ExpressionFailed(
            f"{'an empty text' if isinstance(values, str) else 'an empty list'} has no first or last"
        )
    return values[index]


def _numbers(value: JsonValue) -> list[Number]:
    found = [require_number(item) for item in require_list(value)]
    if not found:
        raise ExpressionFailed("an empty list has no numbers")
    return found


def _join(value: JsonValue, separator: JsonValue = "", field: JsonValue = None) -> str:
    """Join the items of a list; with the name of a field, that field of each item."""
    values, between = require_list(value), require_text(separator)
    if len(between) * len(values) > MOST_JOINED:
        raise ExpressionFailed(f"a list of {len(values)} can't be joined by a text of {len(between)} characters")
    if field is not None:
        values = [_field(item, require_text(field)) for item in values]
    return between.join([format_value(item) for item in values])


def _field(item: JsonValue, name: str) -> JsonValue:
    if not isinstance(item, dict) or name not in item:
        raise ExpressionFailed(f"{describe(item)} has no field {name!r}")
    return item[name]


def _truncate(value: JsonValue, length: JsonValue) -> str:
    most = require_number(length)
    if not isinstance(most, int) or most < 1:
        raise ExpressionFailed(f"truncate takes a whole number of characters, not {describe(length)}")
    return cut(require_text(value), most)


DEFAULT = "default"
"""The only filter that accepts a missing value; the evaluator implements it."""

FILTERS: Mapping[str, FilterSpec] = {
    "abs": FilterSpec(lambda value, _: abs(require_number(value))),
    DEFAULT: FilterSpec(lambda value, given: given[0] if value is None else value, 1, 1, constant_time=True),
    "first": FilterSpec(lambda value, _: _end(value, 0), constant_time=True),
    "float": FilterSpec(lambda value, _: float(_parse_number(value))),
    "int": FilterSpec(lambda value, _: int(_parse_number(value))),
    "join": FilterSpec(lambda value, given: _join(value, *given), 0, 2),
    "last": FilterSpec(lambda value, _: _end(value, -1), constant_time=True),
    "length": FilterSpec(lambda value, _: _length(value), constant_time=True),
    "lower": FilterSpec(lambda value, _: require_text(value).lower()),
    "max": FilterSpec(lambda value, _: max(_numbers(value))),
    "min": FilterSpec(lambda value, _: min(_numbers(value))),
    "round": FilterSpec(lambda value, given: _round(value, *given), 0, 1),
    "sum": FilterSpec(lambda value, _: require_number(sum(_numbers(value)))),
    "tojson": FilterSpec(lambda value, _: tojson(value)),
    "trim": FilterSpec(lambda value, _: require_text(value).strip()),
    "truncate": FilterSpec(lambda value, given: _truncate(value, *given), 1, 1),
    "upper": FilterSpec(lambda value, _: require_text(value).upper()),
}

DEFINED = "defined"
"""The only test that accepts a missing value; the evaluator implements it."""

TESTS: Mapping[str, FilterSpec] = {
    "boolean": FilterSpec(lambda value, _: isinstance(value, bool), constant_time=True),
    DEFINED: FilterSpec(lambda _value, _: True),
    "endingwith": FilterSpec(lambda value, given: require_text(value).endswith(require_text(given[0])), 1, 1),
    "list": FilterSpec(lambda value, _: isinstance(value, list), constant_time=True),
    "mapping": FilterSpec(lambda value, _: isinstance(value, dict), constant_time=True),
    "none": FilterSpec(lambda value, _: value is None, constant_time=True),
    "number": FilterSpec(lambda value, _: is_number(value), constant_time=True),
    "startingwith": FilterSpec(lambda value, given: require_text(value).startswith(require_text(given[0])), 1, 1),
    "string": FilterSpec(lambda value, _: isinstance(value, str), constant_time=True),
}


def work_of(value: JsonValue, most: int) -> int:
    """Return the approximate work of traversing a value once, in characters.

    A value that repeats others by reference may be larger than memory when written out, so counting stops above `most`.
    """
    if isinstance(value, str):
        return len(value)
    total = 1
    pending: list[JsonValue] = [value]
    while pending and total <= most:
        one = pending.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, list | dict):
            total += ITEM * len(one)
            if total <= most:
                pending.extend(one if isinstance(one, list) else one.values())
    return total
