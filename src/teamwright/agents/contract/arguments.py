"""Checks what Python code passes to a constructor against the declaration of the same thing in a manifest.

Both forms refuse the same values, in the same words, where they are written and not when a run starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from pydantic import ValidationError

from teamwright.errors import InvalidValue, UsageError
from teamwright.values.models import Value
from teamwright.values.text.validation_messages import found_text, misfits_of

T = TypeVar("T")


def check_arguments(owner: str, declaration: type[Value], **given: object) -> None:
    """Raise `InvalidValue` with every argument that the declaration's field of the same name does not accept.

    Arguments at the default of their field are not looked at, so an agent without settings costs nothing.
    """
    fields = declaration.model_fields
    values = {
        name: tuple(cast("list[object]", value)) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not fields[name].default
    }
    if not values:
        return
    try:
        declaration.model_validate(values, strict=True)
    except ValidationError as error:
        wrong = [one for one in misfits_of(error, values) if one.at and one.at[0] in values]
        if wrong:
            raise InvalidValue(owner, map(str, wrong)) from None


def check_instance(owner: str, name: str, value: object, *wanted: type) -> None:
    """Raise `InvalidValue` if an argument is given and is not of one of these types."""
    if value is not None and not isinstance(value, wanted):
        words = " or ".join(f"a {one.__name__}" for one in wanted)
        raise InvalidValue(owner, [f"{name}: expects {words}, found {found_text(value)}"])


def listed(owner: str, name: str, value: Iterable[T]) -> Iterable[T]:
    """Return an argument that is a list of things; raises `InvalidValue` for one thing, a text or a mapping."""
    given = cast("object", value)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return value
    hint = f"; write  {name}=[…]" if given is not None else f"; leave {name!r} out, or pass an empty list"
    raise InvalidValue(owner, [f"{name}: expects a list, found {found_text(cast('object', given))}{hint}"])


def check_number(owner: str, name: str, value: object, *, least: float = 0.0) -> None:
    """Raise `UsageError` if a value is not a finite number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
        raise UsageError(f"{owner}: {name} must be a number of at least {least:g}, and is {value!r}.")
