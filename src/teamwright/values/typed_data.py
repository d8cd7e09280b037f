"""Reads structured data as the caller's type: a pydantic model, a dataclass or a TypedDict.

Errors name each field that does not fit.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from teamwright.errors import InvalidOutput, UsageError
from teamwright.values.models import JsonValue
from teamwright.values.text.validation_messages import misfits_of, misfits_text

if TYPE_CHECKING:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

T = TypeVar("T")
MOST_MISFITS = 5


def read_as(data: JsonValue, form: type[T], what: str) -> T:
    """Validate JSON data as a value of this type, or raise `InvalidOutput` that names each field which does not fit.

    `what` names the data at the beginning of the message.
    """
    try:
        with _worded(form):
            return type_adapter(form).validate_json(to_json(data))
    except ValidationError as error:
        text = misfits_text(misfits_of(error, data), most=MOST_MISFITS)
        raise InvalidOutput(f"{what} does not fit {_name(form)!r}: {text}.") from None


def type_adapter(form: type[T]) -> TypeAdapter[T]:
    """Return pydantic's adapter of a type, or raise a `UsageError` if it is no type of data."""
    from pydantic import TypeAdapter

    with _worded(form):
        return TypeAdapter(form)


def schema_of(form: type[object]) -> dict[str, JsonValue]:
    """Return the JSON Schema of a type."""
    from pydantic import TypeAdapter

    with _worded(form):
        if get_origin(form) is None and issubclass(form, BaseModel):
            return cast("dict[str, JsonValue]", form.model_json_schema())
        return cast("dict[str, JsonValue]", TypeAdapter(form).json_schema())


def is_data_type(form: object) -> bool:
    """Whether this is a type to read data as: a class, or one with parameters such as `list[Verdict]`."""
    return isinstance(form, type) or get_origin(form) is not None


@contextmanager
def _worded(form: type[object]) -> Generator[None]:
    """Turn pydantic's errors about a type, at once or when it is first used, into a `UsageError`."""
    from pydantic import PydanticSchemaGenerationError, PydanticUserError

    try:
        yield
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise UsageError(
            f"{_name(form)!r} can't be used as a type of structured data: {unusable_type_hint(error)}."
        ) from error


def unusable_type_hint(error: PydanticSchemaGenerationError | PydanticUserError) -> str:
    """Return the user's next step for a type that pydantic can't use."""
    match error.code:
        case "typed-dict-version":
            return "import TypedDict from typing_extensions, since Python before 3.12 does not keep what it needs"
        case "class-not-fully-defined":
            return "one of its fields has a type that is not known where the class is defined"
        case _:
            return "use a pydantic model, a dataclass or a TypedDict whose fields are such types or plain JSON"


def _name(form: type[object]) -> str:
    return getattr(form, "__name__", None) or str(form)
