"""What a program may reach: the settings of a sandbox, which tools, checks and teams declare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, JsonValue

from teamwright.errors import InvalidName
from teamwright.values.names import check_name
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
