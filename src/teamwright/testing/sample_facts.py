"""One sample fact of each kind, with every field set: for tests of code that stores facts."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Literal, TypeVar, Union, cast, get_args, get_origin

from msgspec import convert
from msgspec.structs import fields

from teamwright.values.events.event import Fact
from teamwright.values.value import JsonValue, Record

R = TypeVar("R", bound=Record)

_PLAIN: dict[object, object] = {
    str: "a\x00b\n\u2028é🎭",
    int: 7,
    float: 0.25,
    bool: True,
    JsonValue: {"kind": "none", "deep": [1, None, True, 1.5, "é"]},
}


def a_fact_of_each_kind() -> list[Fact]:
    """Return one fact of each kind, in the order of the union."""
    kinds = cast("tuple[type[Fact], ...]", get_args(Fact))
    return [_record(kind) for kind in kinds]


def _record(kind: type[R]) -> R:
    return convert({field.name: _value(field.type) for field in fields(kind)}, kind)


def _value(annotation: object) -> object:
    """Return a sample value of a type; of several types or literals the last, which is rarely the default."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return _record(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(arguments[0])
    if origin is Literal:
        return arguments[-1]
    if origin in {Union, UnionType}:
        return _value([one for one in arguments if one is not NoneType][-1])
    if origin is dict:
        return {_value(arguments[0]): _value(arguments[1])}
    if origin is tuple:
        return (_value(arguments[0]), _value(arguments[0]))
    raise TypeError(f"There is no sample of {annotation!r} yet: add one here.")
