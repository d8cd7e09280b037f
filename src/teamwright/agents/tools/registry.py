"""Finds kinds of tools by name: built-in ones, and those that packages register as entry points of `teamwright.tools`.

A new built-in kind is one file beside this one, and one line in `OWN`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from teamwright.agents.agent import Agent, Context
from teamwright.agents.functions.imports import can_load_code
from teamwright.agents.tools.built_in import AgentSource
from teamwright.agents.tools.protocol import Arguments, BuildOptions, ToolContext, ToolDefinition, ToolKind, ToolSource
from teamwright.agents.tools.python import PythonTool
from teamwright.agents.tools.signature import Function
from teamwright.errors import MissingExtra, UnknownName, UsageError, nearest
from teamwright.values.specs.tools import FilesSpec, FunctionTool, McpSpec, MemorySpec, ShellSpec, ToolSpec
from teamwright.values.text.validation_messages import found_text, misfits_of
from teamwright.wings import Registered, entry_points_of

if TYPE_CHECKING:
    from teamwright.documents.nodes import Fields, ProblemReport

GROUP = "teamwright.tools"
FUNCTION = "function"
OWN = {
    FUNCTION: "teamwright.agents.tools.python:PythonKind",
    "workspace": "teamwright.agents.tools.built_in:WorkspaceKind",
    "files": "teamwright.agents.tools.files:FilesKind",
    "shell": "teamwright.agents.tools.files:ShellKind",
    "memory": "teamwright.agents.tools.built_in:MemoryKind",
    "mcp": "teamwright.agents.tools.mcp_source:McpKind",
    "agent": "teamwright.agents.tools.built_in:AgentKind",
    "terminate": "teamwright.agents.tools.built_in:TerminateKind",
}
"""Kinds of this package, in the order in which models see their tools."""

AnyKind = ToolKind[Any]
ToolLike = str | ToolSpec | ToolSource | Agent | Function | tuple[str, "str | ToolSpec | Agent | Function"]
"""A built-in kind by name, `module:function`, a declared tool, a source, an agent, a callable, or a pair of a name and
a tool."""


class UnreadSettings(BaseModel):
    """Unvalidated settings of a kind that was not imported."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True)
class UnloadedKind(ToolKind[UnreadSettings]):
    """A placeholder for a kind of another package that was not imported; it accepts any settings."""

    name: str
    path: str
    model = UnreadSettings

    def build(self, settings: UnreadSettings, options: BuildOptions) -> ToolSource:
        return UnloadedSource(options.name or self.name, self.path, options.spec)


class UnloadedSource(ToolSource):
    """A placeholder for a source of another package that was not imported; using it raises `UsageError`."""

    def __init__(self, name: str, path: str, spec: str | ToolSpec) -> None:
        self.name, self.spec, self._path = name, spec, path

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Raise `UsageError`: the code was never loaded."""
        raise UsageError(f"The tool {self.name!r} ({self._path}) was not loaded, so it can't be used.")

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        """Raise `UsageError`: the code was never loaded."""
        raise UsageError(f"The tool {self.name!r} ({self._path}) was not loaded, so it can't be called.")


@dataclass(frozen=True)
class AbsentKind(ToolKind[UnreadSettings]):
    """A placeholder for a kind of a wing that is not there; a tool of this kind is refused with its extra."""

    name: str
    error: MissingExtra
    model = UnreadSettings

    def build(self, settings: UnreadSettings, options: BuildOptions) -> ToolSource:
        raise self.error

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        report.problem(fields.key_place(self.name), f"{owner}: {self.error}")


@cache
def _registered() -> Registered:
    own = [EntryPoint(name, path, GROUP) for name, path in OWN.items()]
    return Registered([*own, *(point for point in entry_points_of(GROUP) if point.name not in OWN)])


def kind_names() -> list[str]:
    """Return every kind of tool that a manifest can name, those of this package first."""
    return list(_registered().here)


def absent_kind_names() -> list[str]:
    """Return the kinds of tools that wings would bring which are not there."""
    return list(_registered().absent)


def find_kind(name: str) -> AnyKind:
    """Return the kind of this name; a placeholder for one of another package if code must not be loaded.

    The kind of a wing that is not there is a placeholder too.
    """
    if name in OWN:
        return own_kinds()[name]
    point = _registered().here.get(name)
    if (error := _registered().missing("kind of tool", name)) is not None:
        return AbsentKind(name, error)
    if point is None:
        raise UnknownName("kind of tool", name, kind_names())
    if not can_load_code():
        return UnloadedKind(name, point.value)
    return _load(point)


@cache
def own_kinds() -> dict[str, AnyKind]:
    """Return the kinds of this package by name."""
    return {name: _load(_registered().here[name]) for name in OWN}


@cache
def _load(point: EntryPoint) -> AnyKind:
    try:
        kind: AnyKind = point.load()()
    except Exception as error:  # third-party code may raise anything
        raise UsageError(f"The kind of tool {point.name!r} ({point.value}) can't be loaded: {error}") from error
    return kind


@cache
def built_in_names() -> tuple[str, ...]:
    """Return the kinds that need no settings, so that a name alone declares a tool."""
    return tuple(name for name, kind in own_kinds().items() if kind.built_in)


@cache
def reserved_names() -> tuple[str, ...]:
    """Return the names that no other tool may have."""
    return tuple(name for name, kind in own_kinds().items() if kind.reserved)


def kinds_in(fields: Iterable[str]) -> list[str]:
    """Return the names of fields that are kinds of tools."""
    known = _registered()
    return [name for name in fields if name in known.here or name in known.absent]


def kind_name(spec: ToolSpec) -> str:
    """Return the name of a declared tool's kind, which is the name of its field; imports nothing."""
    fields = [*type(spec).model_fields, *(spec.model_extra or ())]
    return next(iter(kinds_in(fields)), fields[0])


def kind_of(spec: ToolSpec) -> AnyKind:
    """Return the kind of a declared tool."""
    return find_kind(kind_name(spec))


def settings_of(spec: ToolSpec, kind: AnyKind) -> BaseModel:
    """Return the settings of a declared tool; raises `UsageError` with every mistake in them."""
    if isinstance(spec, kind.model):  # the short form {function: …, description: …}
        return spec
    value: object = getattr(spec, kind.name)
    if isinstance(value, BaseModel):
        return value
    try:
        return kind.model.model_validate(value)
    except ValidationError as error:
        wrong = "; ".join(map(str, misfits_of(error, value)))
        raise UsageError(f"The settings of the tool {kind.name!r} do not fit: {wrong}") from error


def make_source(tool: ToolLike, earlier: Sequence[ToolSource], max_bytes: int) -> ToolSource:
    """Create the source of a tool, in whatever form it is given."""
    if isinstance(tool, str | ToolSpec | FunctionType):  # isinstance on a protocol is slow, so it comes last
        return _build(tool, None, earlier, max_bytes)
    match tool:
        case ToolSource():
            return tool
        case (str() as name, inner):
            return _build(inner, name, earlier, max_bytes)
        case _:
            return _build(tool, None, earlier, max_bytes)


def _build(
    tool: str | ToolSpec | Agent | Function, name: str | None, earlier: Sequence[ToolSource], max_bytes: int
) -> ToolSource:
    if isinstance(tool, str) and tool in built_in_names():
        kind = own_kinds()[tool]
        return kind.build(kind.model(), BuildOptions(tool, name, earlier, max_bytes))
    if isinstance(tool, str) and ":" not in tool:
        hint = nearest(tool, built_in_names(), "pass the function itself, or write module:function")
        raise UsageError(f"There is no tool {tool!r}: {hint}")
    if isinstance(tool, str | ToolSpec):
        declared = FunctionTool(function=tool) if isinstance(tool, str) else tool
        kind = kind_of(declared)
        return kind.build(settings_of(declared, kind), BuildOptions(tool, name, earlier, max_bytes))
    if not isinstance(tool, FunctionType) and isinstance(tool, ToolSource):
        raise UsageError(f"The tool source {tool.name!r} has a name of its own; pass it without {name!r}.")
    if not isinstance(tool, FunctionType) and isinstance(tool, Agent):
        return AgentSource(tool, name=name)
    if not callable(tool):
        raise UsageError(f"There is {found_text(tool)} among the tools: {_tool_hint(tool)}.")
    return PythonTool(tool, name=name, max_bytes=max_bytes)


def _tool_hint(wrong: object) -> str:
    """What to write instead of something that is no tool."""
    for form in (McpSpec, FilesSpec, ShellSpec, MemorySpec):
        (field, info), *_ = form.model_fields.items()
        if isinstance(wrong, cast("type", info.annotation)):
            return f"write  {form.__name__}({field}=…)"
    return "pass a function, an agent, 'module:function', or a declared tool such as McpSpec(mcp=…)"


def order_of(source: ToolSource) -> tuple[bool, int]:
    """Return the sort key of a source: by the order of kinds, with sources that end the turn last."""
    known = list(OWN)
    return source.signal is not None, known.index(source.kind) if source.kind in known else len(known)
