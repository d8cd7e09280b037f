"""How an MCP server starts as a process: its command, its folder, and the environment variables that it inherits.

A server gets no variable that is not listed here or named by its declaration, so that no key of ours reaches it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.agents.sandbox.back_ends import find_sandbox
from teamwright.agents.sandbox.port import environment
from teamwright.errors import ToolError
from teamwright.values.specs.sandbox import sandbox_settings
from teamwright.values.specs.tools import McpTool

if TYPE_CHECKING:
    from mcp import StdioServerParameters

INHERITED_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
"""Variables that a server inherits besides those of the library: `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `USER`."""


class ServerNotStarted(ToolError):
    """The command of a server, or the folder in which it starts, is not there; a retry would not help."""

    def __init__(self, label: str, why: str) -> None:
        super().__init__(f"The MCP server {label!r} can't be started: {why}.")


def server_parameters(settings: McpTool) -> StdioServerParameters:
    """Return the command of a server with its arguments, folder and variables."""
    from mcp import StdioServerParameters

    program, *arguments = confined_command(settings)
    return StdioServerParameters(
        command=program, args=arguments, env=server_variables(settings, os.environ), cwd=settings.folder
    )


def confined_command(settings: McpTool) -> list[str]:
    """Return the command of a server with its arguments, in its sandbox if it has one."""
    program, *arguments = settings.command or ("",)
    command = [_program(program, settings), *arguments]
    if settings.sandbox is None:
        return command
    sandbox = sandbox_settings(settings.sandbox)
    return find_sandbox(sandbox).confined(command, Path(settings.folder or ".").resolve(), sandbox)


def server_variables(settings: McpTool, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the server besides those that the library passes on."""
    inherited = {name: environ[name] for name in INHERITED_VARIABLES if name in environ}
    if settings.sandbox is not None:
        inherited |= environment(sandbox_settings(settings.sandbox), environ)
    return {**inherited, **settings.env}


def missing_folder(settings: McpTool) -> str | None:
    """Return what to say about the folder in which a server starts, if it is not there."""
    if settings.folder is None or Path(settings.folder).is_dir():
        return None
    return f"there is no folder {settings.folder!r}; check its  folder"


def _program(command: str, settings: McpTool) -> str:
    """Return the program; one with a relative path is relative to `folder`."""
    if settings.folder is None or Path(command).name == command:
        return command
    return str(Path(settings.folder) / command)
