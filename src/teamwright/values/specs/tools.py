"""Declared tools: their kinds, built-in names, and the sandboxes that confine what they start."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticKnownError

from teamwright.errors import InvalidName
from teamwright.values.names import check_name, is_web_address
from teamwright.values.value import Value

AUTO, NONE = "auto", "none"
"""Take what the machine has; run with the rights of the process."""
ANY_HOST = "*"


def _check(name: str) -> str:
    try:
        return check_name("sandbox", name)
    except InvalidName as error:
        raise ValueError(str(error)) from None


BackEnd = Annotated[str, AfterValidator(_check)]


class SandboxSettings(Value):
    """A sandbox: what a program may read and write, whom it may call, and when it is ended."""

    backend: BackEnd = Field(
        default=AUTO, description="`bubblewrap`, `sandlock`, `none`, or `auto` for what the machine has"
    )
    readable: tuple[str, ...] = Field(
        default=(), description="folders and files that it may read, besides its folder and the programs of the system"
    )
    writable: tuple[str, ...] = Field(default=(), description="folders that it may read and write, besides its folder")
    protected: tuple[str, ...] = Field(
        default=(".git", ".hg", ".svn"),
        description="what it may not write in these folders, nor read with `sandlock`, because others run or trust it",
    )
    network: tuple[str, ...] = Field(
        default=(), description="hosts that it may call, `host` or `host:port`; `*` for all; none by default"
    )
    env: dict[str, str] = Field(
        default={}, description="variables that it gets, besides PATH and the locale; ${NAME} passes one on"
    )
    seconds: float = Field(default=60.0, gt=0, allow_inf_nan=False, description="how long a command may take")
    megabytes: int = Field(default=1024, ge=16, description="the memory of a command and what it starts")
    processes: int = Field(default=128, ge=1, description="the processes that a command may have at a time")
    output: int = Field(
        default=30_000, ge=100, le=10_000_000, description="bytes of its output that are kept, from both ends"
    )

    def resolved(self, folder: Callable[[str], str]) -> SandboxSettings:
        """Return the settings with absolute folders; `folder` resolves one, or raises if it is not allowed."""
        if not self.readable and not self.writable:
            return self
        moved = {name: tuple(map(folder, getattr(self, name))) for name in ("readable", "writable")}
        return self.model_copy(update=moved)


Settings = TypeVar("Settings", bound=Value)
AnySandbox = BackEnd | SandboxSettings
"""A back end by name, or settings."""


def sandbox_settings(declared: AnySandbox) -> SandboxSettings:
    """Return the settings of a declaration."""
    return SandboxSettings(backend=declared) if isinstance(declared, str) else declared


def moved_sandbox(sandbox: JsonValue, move: Callable[[str], str]) -> JsonValue:
    """Return the declaration of a sandbox with its relative folders moved."""
    if not isinstance(sandbox, dict):
        return sandbox
    lists = {name: sandbox[name] for name in ("readable", "writable") if isinstance(sandbox.get(name), list)}
    moved = {
        name: [move(one) if isinstance(one, str) else one for one in value]
        for name, value in lists.items()
        if isinstance(value, list)
    }
    return {**sandbox, **moved}


def moved_folders(tool: JsonValue, name: str, move: Callable[[str], str]) -> JsonValue:
    """Return the settings of a tool with the folder of this name, and those of its sandbox, moved."""
    if not isinstance(tool, dict):
        return tool
    moved = dict(tool)
    if isinstance(folder := moved.get(name), str):
        moved[name] = move(folder)
    if "sandbox" in moved:
        moved["sandbox"] = moved_sandbox(moved["sandbox"], move)
    return moved


def resolved_folders(tool: Settings, name: str, folder: Callable[[str], Path]) -> Settings:
    """Return checked settings of a tool with the same folders absolute; `folder` resolves one."""
    declared = tool.model_dump(mode="json", exclude_unset=True)
    return type(tool).model_validate(moved_folders(declared, name, lambda one: str(folder(one))))


def moved_sandboxes(data: JsonValue, move: Callable[[str], str]) -> JsonValue:
    """Return the data of an agent or a team with the folders of its sandboxes moved; tools move their own."""
    match data:
        case dict():
            return {
                name: moved_sandbox(value, move)
                if name == "sandbox"
                else value
                if name in ("tools", "input_schema", "output_schema")
                else moved_sandboxes(value, move)
                for name, value in data.items()
            }
        case list():
            return [moved_sandboxes(one, move) for one in data]
        case _:
            return data


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
AgentName = Annotated[str, Field(json_schema_extra={"names": "agent"})]
"""A name of an agent or team in the options of a strategy; one that is no member becomes a helper."""

MemberName = Annotated[str, Field(json_schema_extra={"names": "member"})]
"""A name of a member of the team in the options of a strategy."""

TERMINATE = "terminate"
"""The built-in tool with which a member ends its team."""

WORKSPACE = "workspace"
"""The built-in tools with which a member reads and writes the workspace of the run."""

FILES = "files"
"""The built-in tools with which a member reads and writes files below one folder."""

SHELL = "shell"
"""The built-in tool with which a member runs commands in one folder."""

SANDBOX = "the sandbox that it runs in: a back end by name, or settings; that of the team by default"
MEMORY = "memory"
"""The built-in tools with which a member keeps notes across runs."""

NOT_IMPORTABLE = "<created in Python>"
"""Recorded in place of the import path of a tool that has none, such as a lambda or a closure."""

UNSAFE_RETRIES = "retries repeat a call that must not be made twice"
SAFE_RETRIES = "add  check  or  idempotent: true"


def _words(command: object) -> object:
    if not isinstance(command, str):
        return command
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise ValueError(f"the command {command!r} can't be read ({error})") from None


Command = Annotated[
    tuple[str, ...],
    Field(min_length=1),
    BeforeValidator(_words),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
"""A program with its arguments, which may be written as a shell reads them."""


def program_of(command: object) -> str | None:
    """Return the program of a command that need not be valid; `None` if it names none."""
    try:
        words = _words(command)
    except ValueError:
        return str(command)
    first = next(iter(cast("Sequence[object]", words)), None) if isinstance(words, list | tuple) else None
    return first if isinstance(first, str) else None


class FunctionTool(Value):
    """A Python function, by import path."""

    function: str = Field(description="module:function")
    name: Name | None = Field(default=None, description="the name of the tool; that of the function by default")
    description: str | None = Field(default=None, description="what models read of it; the docstring by default")
    timeout: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="seconds of one call; the agent's `timeout` by default"
    )
    retry: int = Field(default=0, ge=0, le=20, description="how often a failed call is repeated")
    idempotent: bool | None = Field(
        default=None, description="whether a call that a crash left in doubt is made again; yes, unless `once` is set"
    )
    once: tuple[str, ...] = Field(
        default=(), description="the parameters that identify an action, which is not made twice in a run or its forks"
    )
    check: str | None = Field(
        default=None,
        description="module:function that returns the result of a call in doubt, None if it was not made",
    )

    @model_validator(mode="after")
    def _retries_are_safe(self) -> Self:
        """Reject retries of a call that must not be made twice."""
        if self.retry and self.check is None and not self.idempotent and (self.once or self.idempotent is False):
            raise ValueError(f"{UNSAFE_RETRIES}: {SAFE_RETRIES}")
        return self


MCP_NEEDS = {"folder": "command", "env": "command", "sandbox": "command", "headers": "url"}
"""Settings of an MCP server that have an effect only with another one."""


class McpTool(Value):
    """An MCP server, by command or URL."""

    command: Command | None = Field(default=None, description="the program that is the server, with its arguments")
    folder: str | None = Field(
        default=None, description="the folder in which the command starts; that of the manifest by default"
    )
    env: dict[str, str] = Field(
        default={}, description="variables of the server, besides a short list that it inherits; ${NAME} passes one on"
    )
    url: str | None = Field(default=None, description="the address of a server that runs elsewhere")
    headers: dict[str, str] = Field(default={}, description="sent with each request to it, such as a token")
    tools: tuple[str, ...] | None = Field(default=None, description="the tools that the agent may use; all by default")
    share: Literal["run", "engine"] = Field(default="run", description="how long the server lives")
    sandbox: AnySandbox | None = Field(
        default=None, description=f"{SANDBOX}, else none; the server may write in the folder in which it starts"
    )

    def mistakes(self) -> Iterable[str]:
        """Return settings that have no effect, and an address that is invalid."""
        for name, needs in MCP_NEEDS.items():
            if getattr(self, name) and getattr(self, needs) is None:
                yield f"{name}: goes with {needs!r}, which is not there"
        if self.url is not None and not is_web_address(self.url):
            yield f"url: {self.url!r} is not an http address"


class McpSpec(Value):
    """The tool form `{mcp: {...}}`."""

    mcp: McpTool


class FilesTool(Value):
    """File tools below one folder; without a folder, below the current one of the driver's process."""

    folder: str | None = Field(default=None, description="the folder, relative to that of the manifest")


class FilesSpec(Value):
    """The tool form `{files: {...}}`."""

    files: FilesTool


class ShellTool(Value):
    """A tool that runs commands in one folder, in a sandbox; without a folder, in the current one of the driver."""

    folder: str | None = Field(default=None, description="the folder, relative to that of the manifest")
    sandbox: AnySandbox | None = Field(default=None, description=f"{SANDBOX}, else `auto`")


class ShellSpec(Value):
    """The tool form `{shell: {...}}`."""

    shell: ShellTool


class MemoryTool(Value):
    """Notes that an agent keeps across runs."""

    name: Name = Field(
        default="own", description="`own`, `team` for all members of the team, or a name that other teams may share"
    )


class MemorySpec(Value):
    """The tool form `{memory: {...}}`."""

    memory: MemoryTool


def memory_specs(memory: str | None) -> tuple[MemorySpec, ...]:
    """Return the tool of an agent's memory, if it has one."""
    return () if memory is None else (MemorySpec(memory=MemoryTool(name=memory)),)


class AgentTool(Value):
    """An agent or a team as a tool: the model asks it, and its answer is the result."""

    agent: AgentName = Field(description="the agent or team that is asked")
    name: str | None = Field(default=None, description="the name of the tool; that of the agent by default")
    description: str | None = Field(default=None, description="what the model reads; that of the agent by default")


class CustomTool(Value):
    """The tool form `{kind: settings}`, for a kind that another package registers."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        """Reject a built-in kind, whose own class reports its mistakes."""
        if len(self.model_extra or ()) != 1 or not OWN_TOOL_KINDS.isdisjoint(self.model_extra or ()):
            raise PydanticKnownError("model_type", {"class_name": "CustomTool"})
        return self


OWN_TOOL_KINDS = frozenset({"function", "mcp", "files", "shell", "agent", "memory"})
ToolSpec = FunctionTool | McpSpec | FilesSpec | ShellSpec | AgentTool | MemorySpec | CustomTool
"""A declared tool; the name of its field is its kind."""

DeclaredTool = FunctionTool | McpSpec | FilesSpec | ShellSpec | AgentTool | MemorySpec | SkipJsonSchema[CustomTool]
"""The type of a field for tools; schemas of kinds of other packages are added where they are known."""
