"""JSON that is the same for the same values, in every process and however they are spelt: the identity of an action."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from teamwright.errors import ToolError


def canonical_json(value: object) -> str:
    """Return a value as JSON: equal numbers and equal times alike, and sets in order."""
    return json.dumps(_canonical(value), sort_keys=True, ensure_ascii=False)


def _canonical(value: object) -> JsonValue:  # noqa: PLR0911 - one for each kind of value
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return int(value) if value.is_integer() else repr(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else f"{value.normalize():f}"
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat()
        case BaseModel():
            return _canonical(dict(value))
        case Mapping():
            return {str(name): _canonical(one) for name, one in cast("Mapping[Any, object]", value).items()}
        case AbstractSet():
            return sorted(map(_canonical, cast("AbstractSet[object]", value)), key=canonical_json)
        case list() | tuple():
            return [_canonical(one) for one in cast("Sequence[object]", value)]
        case _ if is_dataclass(value):
            return _canonical(vars(value))
        case _:
            return _as_json(value)


def _as_json(value: object) -> JsonValue:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise ToolError(f"A value of the type {type(value).__name__!r} can't identify an action (once)") from error
