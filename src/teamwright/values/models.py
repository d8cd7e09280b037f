"""The two classes that all values share, frozen and closed.

A `Value` is written by people (manifests, options, limits), so it checks itself and says what is wrong. A `Record` is
made by the thousand (messages, replies, facts): light as a tuple, and checked where it comes in from outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, cast

from msgspec import Struct, structs
from pydantic import BaseModel, ConfigDict, ValidationError

from teamwright.errors import InvalidValue, nearest

if TYPE_CHECKING:
    from pydantic import JsonValue
    from pydantic._internal._model_construction import ModelMetaclass as _Constructor
else:
    JsonValue = Any  # what a record may hold in such a field has been checked where it came from

    class _Constructor(type(BaseModel)):
        """Reports invalid arguments in our own words; `model_validate` leaves that to its caller."""

        def __call__(cls, *args: object, **fields: object) -> object:
            if args:
                raise InvalidValue(cls.__name__, [f"takes named arguments only: {', '.join(cls.model_fields)}"])
            try:
                return super().__call__(**fields)
            except ValidationError as error:
                raise InvalidValue(cls.__name__, _reasons(error, fields, list(cls.model_fields))) from None


def _reasons(error: ValidationError, fields: dict[str, object], known: list[str]) -> Iterator[str]:
    from teamwright.values.text.validation_messages import misfits_of

    for one in misfits_of(error, fields):
        unknown = one.at[0] if len(one.at) == 1 and one.at[0] not in known else None
        yield f"{one} ({nearest(unknown, known).rstrip('.')})" if isinstance(unknown, str) else str(one)


class Value(BaseModel, metaclass=_Constructor):
    """A value that refuses unknown fields, built on first use.

    A constant of a module is made with `model_construct`, so that importing the module does not build its class.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="strings")


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A value that is written down; what is at its default is left out of the journal.

    The garbage collector does not look at records, since none ever holds what holds it.
    """

    def changed(self, **fields: object) -> Self:
        """The same with other values in these fields."""
        return structs.replace(self, **fields)

    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data."""
        fields = {name: to_plain_json(getattr(self, name)) for name in self.__struct_fields__}
        kind = self.__struct_config__.tag
        return {"kind": kind, **fields} if kind else fields


def to_plain_json(value: object) -> JsonValue:
    """A value of a record's field as JSON data."""
    match value:
        case Record():
            return value.to_json()
        case list() | tuple():
            return [to_plain_json(item) for item in cast("list[Any]", value)]
        case dict():
            return {key: to_plain_json(item) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return cast("JsonValue", value)
