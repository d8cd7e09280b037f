"""The signature of a Python function as a tool: what a model has to supply, and what the engine injects."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, cast

from pydantic import Field, TypeAdapter

from teamwright.agents.functions.imports import Function
from teamwright.agents.tools.context import ToolContext
from teamwright.errors import UsageError
from teamwright.values.text.validation_messages import found_text

KEY_PARAMETER, OWNED_PARAMETER = "idempotency_key", "owned"


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """The parameters of a tool, as keyword parameters, apart from those that the engine injects.

    `contexts` are the parameters with the annotation `ToolContext`, and `needs` are the types in `ToolContext[…]`.
    """

    parameters: tuple[inspect.Parameter, ...]
    contexts: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    needs: tuple[type, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters that a model has to supply."""
        return tuple(one.name for one in self.parameters)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of all parameters."""
        return (*self.names, *self.contexts, *self.by_name)

    def described(self, texts: Mapping[str, str]) -> tuple[inspect.Parameter, ...]:
        """Return the parameters with descriptions: their own, in the annotation, or else these."""
        return tuple(_described(one, texts.get(one.name)) for one in self.parameters)

    def injected(self, context: ToolContext) -> dict[str, object]:
        """Return the arguments that the engine supplies."""
        given: dict[str, object] = dict.fromkeys(self.contexts, context)
        for one in self.by_name:
            given[one] = context.idempotency_key if one == KEY_PARAMETER else context.owned
        return given


def read_signature(function: Function, name: str, what: str = "tool") -> ToolSignature:
    """Read the signature of a function; raises `UsageError` if it can't be a tool."""
    if not callable(function):
        raise UsageError(f"The {what} {name!r} must be a function, not {found_text(function)}.")
    try:
        hints = typing.get_type_hints(annotated_function(function), include_extras=True)
        declared = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"The {what} {name!r} has a signature that can't be read: {error}.") from error
    found: list[inspect.Parameter] = []
    contexts: dict[str, tuple[type, ...]] = {}
    by_name: list[str] = []
    for one in declared:
        if one.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise UsageError(f"The {what} {name!r} has the positional parameter {one.name!r}; make it a named one.")
        annotation = hints.get(one.name, typing.Any)
        needs = _context_needs(annotation)
        if needs is not None:
            contexts[one.name] = needs
        elif one.name in (KEY_PARAMETER, OWNED_PARAMETER):
            by_name.append(one.name)
        else:
            kind = one.kind if one.kind is inspect.Parameter.VAR_KEYWORD else inspect.Parameter.KEYWORD_ONLY
            found.append(one.replace(kind=kind, annotation=annotation))
    types_needed = tuple(dict.fromkeys(kind for needs in contexts.values() for kind in needs))
    return ToolSignature(tuple(found), tuple(contexts), tuple(by_name), types_needed)


def arguments_adapter(parameters: tuple[inspect.Parameter, ...]) -> TypeAdapter[Any]:
    """Return what validates arguments against these parameters, and returns them instead of calling a function."""

    def collect(**arguments: object) -> dict[str, object]:
        return arguments

    collect.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    collect.__annotations__ = {one.name: one.annotation for one in parameters}
    return TypeAdapter(cast("Any", collect))


def annotated_function(function: Function) -> Function:
    """Unwrap partials and callable objects to the function that has the annotations."""
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    return function if hasattr(function, "__annotations__") else type(function).__call__


def _context_needs(annotation: object) -> tuple[type, ...] | None:
    """Return the types in `ToolContext[…]`, alone or in a union with `None`; `None` for any other annotation."""
    if annotation is ToolContext:
        return ()
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is ToolContext:
        inner = arguments[0]
        kinds = typing.get_args(inner) if _is_union(typing.get_origin(inner)) else (inner,)
        return tuple(kind for kind in kinds if isinstance(kind, type) and kind is not object)
    if _is_union(origin):
        return next((needs for one in arguments if (needs := _context_needs(one)) is not None), None)
    return None


def _is_union(origin: object) -> bool:
    return origin is typing.Union or origin is types.UnionType


def _annotation(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...]]:
    """Split `Annotated[type, …]` into the type and its notes."""
    annotation: Any = parameter.annotation
    if typing.get_origin(annotation) is Annotated:
        kind, *notes = typing.get_args(annotation)
        return kind, tuple(notes)
    return annotation, ()


def _described(parameter: inspect.Parameter, text: str | None) -> inspect.Parameter:
    """Return the parameter with a description in its annotation; a note of the annotation wins over the text."""
    kind, notes = _annotation(parameter)
    fields = [Field(description=note) if isinstance(note, str) else note for note in notes]
    if text:
        fields.insert(0, Field(description=text))
    if not fields or parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return parameter
    annotation: Any = Annotated[(kind, *fields)]  # pyright: ignore[reportInvalidTypeForm]
    return parameter.replace(annotation=annotation)
