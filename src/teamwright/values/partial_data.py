"""Structured data that is still being written: the beginning of a JSON text, and what of it fits a type.

A value that may still change is left out: a number without an end, and whatever does not fit yet at the growing end.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from teamwright.values.models import JsonValue
from teamwright.values.typed_data import type_adapter

T = TypeVar("T")
Path = tuple[str | int, ...]

FENCE = "```"
NUMBER_ENDS = "0123456789+-.eE"


def parse_partial(text: str) -> JsonValue:
    """Parse the beginning of a JSON text; a text inside it may be cut. `None` if there is no value yet."""
    body = text.strip()
    if body.startswith(FENCE):
        body = body.partition("\n")[2].removesuffix(FENCE).rstrip("`")
    try:
        data = cast("JsonValue", from_json(body, allow_partial="trailing-strings"))
    except ValueError:
        return None
    end = _growing_end(data)
    if end and body[-1] in NUMBER_ENDS and type(_at(data, end)) in (int, float):
        return _without(data, end)
    return data


class PartialReader(Generic[T]):
    """Reads partial data as a type: what fits is a valid value of the type."""

    def __init__(self, form: type[T]) -> None:
        self._adapter: TypeAdapter[T] = type_adapter(form)

    def read(self, data: JsonValue, *, is_final: bool = False) -> T | None:
        """Return the data as the type, or `None` if it does not fit (yet).

        Unless it is final, items at its growing end that do not fit yet are left out, innermost first.
        """
        while data is not None:
            try:
                return self._adapter.validate_json(to_json(data))
            except ValidationError as error:
                unfit = None if is_final else _unfinished(data, error)
                if not unfit:
                    return None
                data = _without(data, unfit)
        return None


def _unfinished(data: JsonValue, error: ValidationError) -> Path:
    """The path of an item at the growing end that explains the first error; empty if none does."""
    found: Path = ()
    inner: object = data
    for name in error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]:
        if (isinstance(inner, dict) and name in inner) or (isinstance(inner, list) and isinstance(name, int)):
            found += (name,)
            inner = _at(data, found)  # what is neither key nor index names a member of a union, or a missing field
    return found if found == _growing_end(data)[: len(found)] else ()


def _growing_end(data: JsonValue) -> Path:
    """The path to the last item, which is still being written."""
    path: Path = ()
    while isinstance(data, dict | list) and data:
        last: str | int = (
            next(reversed(cast("dict[str, JsonValue]", data))) if isinstance(data, dict) else len(data) - 1
        )
        path += (last,)
        data = _item(data, last)
    return path


def _at(data: JsonValue, path: Path) -> JsonValue:
    for name in path:
        data = _item(data, name)
    return data


def _item(data: JsonValue, name: str | int) -> JsonValue:
    return cast("dict[str | int, JsonValue]", data)[name]


def _without(data: JsonValue, path: Path) -> JsonValue:
    """The data without the item at a path."""
    name, *rest = path
    if isinstance(data, list):
        index = cast("int", name)
        return [*data[:index], _without(data[index], tuple(rest))] if rest else data[:index]
    assert isinstance(data, dict)
    kept = dict(data)
    last = kept.pop(cast("str", name))
    return {**kept, cast("str", name): _without(last, tuple(rest))} if rest else kept
