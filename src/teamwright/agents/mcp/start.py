"""What a server needs to start besides its package: a command and a folder that are there."""

from __future__ import annotations

from pathlib import Path

from teamwright.errors import ToolError
from teamwright.values.specs.manifest import McpTool


class ServerNotStarted(ToolError):
    """The command of a server, or the folder in which it starts, is not there; a retry would not help."""

    def __init__(self, label: str, why: str) -> None:
        super().__init__(f"The MCP server {label!r} can't be started: {why}.")


def missing_folder(settings: McpTool) -> str | None:
    """Return what to say about the folder in which a server starts, if it is not there."""
    if settings.cwd is None or Path(settings.cwd).is_dir():
        return None
    return f"there is no folder {settings.cwd!r}; check its cwd"
