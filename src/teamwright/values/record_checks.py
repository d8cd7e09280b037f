"""Checks records that user code has made: constructing one checks nothing, and a wrong field could not be read back.

Messages name the field in our words, never in those of a library.
"""

from __future__ import annotations

import re

from msgspec import ValidationError, convert, to_builtins
from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from teamwright.errors import UsageError
from teamwright.values.models import Record

_REASON = re.compile(r"(?P<reason>.*?)(?: - at `(?:key in )?\$\.?(?P<place>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<found>[^`]+)`")


def misfit_of(record: Record) -> str | None:
    """Return which field of a record has a value that can't be recorded, and why; `None` if all fit."""
    try:
        convert(to_builtins(record), type(record))
    except ValidationError as error:
        return _reworded(str(error))
    except (TypeError, ValueError, RecursionError) as error:
        return f"it contains something that is not JSON ({error})"
    return None


def check_text(name: str, value: object) -> None:
    """Raise `UsageError` if an argument is no text."""
    if not isinstance(value, str):
        raise UsageError(f"The argument {name!r} must be a text, and is {value!r:.100}.")


def plain_json(value: object) -> JsonValue:
    """Return a value as the JSON that a journal reads back, with null for NaN; raises `ValueError` if it is none."""
    try:
        return from_json(to_json(to_jsonable_python(value), inf_nan_mode="null"))
    except (PydanticSerializationError, RecursionError) as error:
        raise ValueError(str(error)) from error


def exact_json(value: object) -> JsonValue:
    """Return what a person or program sent as JSON; raises `ValueError` also for NaN and infinity, which JSON lacks."""
    try:
        return from_json(to_json(to_jsonable_python(value), inf_nan_mode="constants"), allow_inf_nan=False)
    except (PydanticSerializationError, RecursionError) as error:
        raise ValueError(str(error)) from error
    except ValueError:
        raise ValueError("it contains NaN or an infinite number, which JSON does not have") from None


def _reworded(message: str) -> str:
    found = _REASON.fullmatch(message)
    reason, place = (found["reason"], found["place"]) if found else (message, None)
    if types := _EXPECTED.fullmatch(reason):
        reason = f"expects {types['expected']}, found {types['found']}"
    reason = reason[:1].lower() + reason[1:]
    return f"{place}: {reason}" if place else reason
