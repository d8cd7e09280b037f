"""Base classes of values, and the check of records made in Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args, get_origin

from msgspec import Struct, ValidationError as RecordError, convert, structs, to_builtins
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from teamwright.errors import InvalidValue, UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue
    from pydantic._internal._model_construction import ModelMetaclass as _Constructor
else:
    JsonValue = Any  # such a field is validated where its value comes from

    class _Constructor(type(BaseModel)):
        """Raises `InvalidValue` for invalid arguments; `model_validate` leaves that to its caller."""

        def __call__(cls, *args: object, **fields: object) -> object:
            if args:
                raise InvalidValue(cls.__name__, [f"takes named arguments only: {', '.join(cls.model_fields)}"])
            try:
                made = super().__call__(**fields)
            except ValidationError as error:
                from teamwright.values.text.validation_messages import reasons_of

                raise InvalidValue(cls.__name__, reasons_of(error, fields, cls)) from None
            if mistakes := [*conversions(made, fields), *all_mistakes(made, fields)]:
                raise InvalidValue(cls.__name__, mistakes)
            return made


def conversions(made: BaseModel, fields: dict[str, object]) -> Iterator[str]:
    """Word the arguments that pydantic has converted and a manifest would refuse: True as a number, bytes as text."""
    for name, value in fields.items():
        read: object = made.__dict__.get(name, value)
        if isinstance(value, dict) and isinstance(read, BaseModel):
            yield from (f"{name}.{text}" for text in conversions(read, cast("dict[str, object]", value)))
        elif isinstance(value, bool | bytes | str) and type(read) in CONVERTED and not isinstance(read, type(value)):
            from teamwright.values.text.validation_messages import found_text

            yield f"{name}: expects {CONVERTED[type(read)]}, found {found_text(value)}"


def all_mistakes(made: BaseModel, fields: dict[str, object]) -> Iterator[str]:
    """Yield the mistakes of a value and of those values in it that were given as a dict."""
    if isinstance(made, Value):
        yield from made.mistakes()
    for name, value in fields.items():
        read: object = made.__dict__.get(name)
        if isinstance(value, dict) and isinstance(read, BaseModel):
            yield from (f"{name}.{text}" for text in all_mistakes(read, cast("dict[str, object]", value)))


CONVERTED: dict[type, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
"""Types to which pydantic converts what was meant as something else."""


class Value(BaseModel, metaclass=_Constructor):
    """A validated value without unknown fields; its validator is built on first use.

    Create module constants with `model_construct`, so that importing the module does not build the validator.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="strings")

    def mistakes(self) -> Iterable[str]:
        """Return what the types do not refuse and the checks of manifests do; only a constructor asks for it.

        Records are read without it, since newer checks must not prevent a resume.
        """
        return ()


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A value that is recorded; fields at their defaults are omitted from the journal.

    The garbage collector skips records, since they never form cycles.
    """

    def changed(self, **fields: object) -> Self:
        """Return a copy with other values in these fields."""
        return structs.replace(self, **fields)

    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data."""
        fields = {name: to_plain_json(getattr(self, name)) for name in self.__struct_fields__}
        kind = self.__struct_config__.tag
        return {"kind": kind, **fields} if kind else fields


class CheckedRecord(Record, frozen=True):
    """A record that other packages make: its constructor raises `InvalidValue` for what its types do not allow."""

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        for one in _fields(type(self)):
            value: object = getattr(self, one.name)
            try:
                convert(value, one.type)
            except RecordError as error:
                words = get_args(one.type) if get_origin(one.type) is Literal else ()
                reason = f"it is one of {', '.join(words)}" if words else _reworded(str(error))
                mistakes.append(f"{one.name} is {value!r:.100}: {reason}")
        if mistakes:
            raise InvalidValue(type(self).__name__, mistakes)


_fields = cache(structs.fields)


def to_plain_json(value: object) -> JsonValue:
    """Convert the value of a record's field to JSON data."""
    match value:
        case Record():
            return value.to_json()
        case list() | tuple():
            return [to_plain_json(item) for item in cast("list[Any]", value)]
        case dict():
            return {key: to_plain_json(item) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return cast("JsonValue", value)


_REASON = re.compile(r"(?P<reason>.*?)(?: - at `(?:key in )?\$\.?(?P<place>.*)`)?", re.DOTALL)
_BOUND = re.compile(r"Expected `\w+` ([<>]=) ([0-9.]+)")
_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<found>[^`]+)`")


def misfit_of(record: Record) -> str | None:
    """Return which field of a record has a value that can't be recorded, and why; `None` if all fit."""
    try:
        convert(to_builtins(record), type(record))
    except RecordError as error:
        return _reworded(str(error))
    except (TypeError, ValueError, RecursionError) as error:
        return f"it contains something that is not JSON ({error})"
    return None


def check_text(name: str, value: object) -> None:
    """Raise `UsageError` if an argument is no text."""
    if not isinstance(value, str):
        raise UsageError(f"The argument {name!r} must be a text, and is {value!r:.100}.")


def plain_json(value: object) -> JsonValue:
    """Return a value as the JSON that a journal reads back, with null for NaN; raises `ValueError` if that can't be."""
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
    elif bound := _BOUND.fullmatch(reason):
        reason = f"expects a number that is {'at least' if bound[1] == '>=' else 'at most'} {bound[2]}"
    reason = reason[:1].lower() + reason[1:]
    return f"{place}: {reason}" if place else reason
