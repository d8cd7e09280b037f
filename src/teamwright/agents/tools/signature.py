"""The signature of a Python function as a tool: what a model supplies, what the engine injects, what it says of itself.

Docstrings are read in the styles of Google, NumPy and Sphinx. One without a parameter section is returned unchanged:
it is part of prompts.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, cast

from pydantic import Field, TypeAdapter

from teamwright.agents.functions.imports import Function
from teamwright.agents.tools.protocol import ToolContext
from teamwright.errors import UsageError
from teamwright.values.text.validation_messages import found_text

GOOGLE_HEADER = re.compile(r"(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters):\s*")
GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<names>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")
NUMPY_HEADER = re.compile(r"(?:Other )?Parameters\s*")
NUMPY_RULE = re.compile(r"-{3,}\s*")
NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
SPHINX_ENTRY = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(?P<names>\w+)\s*:\s*(?P<text>.*)"
)
SPHINX_TYPE = re.compile(r":type\s+\w+\s*:.*")


@dataclass(slots=True)
class Docstring:
    """The description of a function without its parameter sections, and the description of each parameter."""

    description: str
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def parse_docstring(text: str, parameters: Collection[str]) -> Docstring:
    """Parse the cleaned docstring of a function that has these parameters.

    A section that describes none of them is no parameter section and stays in the description.
    """
    lines, kept, found = text.splitlines(), list[str](), dict[str, str]()
    position = 0
    while position < len(lines):
        end, described = _section(lines, position)
        if described.keys().isdisjoint(parameters):
            kept.append(lines[position])
            position += 1
            continue
        found.update(described)
        position = end
    if not found:
        return Docstring(text)
    return Docstring(
        "\n".join(_without_double_gaps(kept)).strip(), {name: found[name] for name in parameters if name in found}
    )


def _section(lines: list[str], start: int) -> tuple[int, dict[str, str]]:
    """Return the end of the parameter section or field that starts here, and what it describes."""
    line = lines[start]
    following = lines[start + 1] if start + 1 < len(lines) else ""
    if GOOGLE_HEADER.fullmatch(line):
        end = _indented_until(lines, start + 1)
        return end, _google_entries(lines[start + 1 : end])
    if NUMPY_HEADER.fullmatch(line) and NUMPY_RULE.fullmatch(following):
        end = _numpy_until(lines, start + 2)
        return end, _numpy_entries(lines[start + 2 : end])
    if entry := SPHINX_ENTRY.fullmatch(line):
        end = _indented_until(lines, start + 1)
        described = {entry["names"]: _joined([entry["text"], *lines[start + 1 : end]])}
        if end < len(lines) and SPHINX_TYPE.fullmatch(lines[end]):
            end += 1
        return end, described
    return start + 1, {}


def _indented_until(lines: list[str], start: int) -> int:
    """Return where the indented lines end; blank lines after them do not belong to them."""
    end = start
    for number in range(start, len(lines)):
        if lines[number][:1].strip():
            break
        if lines[number].strip():
            end = number + 1
    return end


def _numpy_until(lines: list[str], start: int) -> int:
    """Return where the next section of a NumPy docstring starts."""
    for number in range(start, len(lines) - 1):
        if NUMPY_RULE.fullmatch(lines[number + 1]) and lines[number].strip():
            return number
    return len(lines)


def _google_entries(lines: list[str]) -> dict[str, str]:
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return dict(_entries([line[depth:] for line in lines], GOOGLE_ENTRY))


def _numpy_entries(lines: list[str]) -> dict[str, str]:
    return dict(_entries(lines, NUMPY_ENTRY))


def _entries(lines: list[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of entries: each begins without an indent, and its indented lines belong to it."""
    position = 0
    while position < len(lines):
        entry = pattern.fullmatch(lines[position].rstrip())
        end = _indented_until(lines, position + 1)
        if entry is not None and lines[position][:1].strip():
            first = entry.groupdict().get("text") or ""
            text = _joined([first, *lines[position + 1 : end]])
            for name in entry["names"].split(","):
                yield name.strip().lstrip("*"), text
        position = end


def _joined(lines: list[str]) -> str:
    return " ".join(stripped for line in lines if (stripped := line.strip()))


def _without_double_gaps(lines: list[str]) -> Iterator[str]:
    """Yield the lines with at most one blank line in a row, where a section was taken out."""
    before = ""
    for line in lines:
        if line.strip() or before.strip():
            yield line
        before = line


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
