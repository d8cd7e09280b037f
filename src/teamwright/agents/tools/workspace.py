"""The built-in tools `workspace`: what a run shares, for models and scripts, reached through the context alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.agents.tools.python import MethodTool
from teamwright.errors import ArtifactNotFound, StaleWrite, ToolError

if TYPE_CHECKING:
    from teamwright.agents.context import Workspace

OPEN = "open_artifact"
"""The tool that opens pointers, which a model also has where its turn points at something."""
NAMES = ("list_values", "read_value", "write_value", "keep_artifact", OPEN)


class Shared:
    """The workspace as one call of a tool uses it; `place` is where the call stands in its turn."""

    def __init__(self, workspace: Workspace, place: str) -> None:
        self._workspace, self._place = workspace, place

    async def list_values(self) -> JsonValue:
        """List the values that the team shares, with their versions and who wrote them."""
        found: list[JsonValue] = []
        for name in self._workspace.names():
            held = self._workspace.get(name)
            found.append({"name": name, "version": held.version if held else 0, "by": held.by if held else ""})
        return found

    async def read_value(self, name: str) -> JsonValue:
        """Read a value that the team shares. Version 0 means that nobody has written it."""
        return self._standing(name)

    async def write_value(self, name: str, value: JsonValue, version: int | None = None) -> JsonValue:
        """Write a value that the team shares. It is refused when others have changed it since `version`.

        Without a version the one counts that you have seen. A refusal tells what stands there now.
        """
        if version is None:
            held = self._workspace.get(name)
            version = held.version if held else 0
        try:
            written = await self._workspace.put(name, value, version=version, key=f"{self._place}/write")
        except StaleWrite:
            return {"written": False, **self._standing(name)}
        return {"written": True, "name": name, "version": written}

    async def keep_artifact(self, text: str, name: str) -> JsonValue:
        """Keep a long text under a name, and get a hash by which anybody in the team can open it."""
        kept = await self._workspace.keep(text, name=name, key=f"{self._place}/keep")
        return {"hash": kept.hash, "name": kept.name, "size": kept.size}

    async def open_artifact(self, hash: str) -> JsonValue:
        """Open a text that somebody has kept, by its hash or by a pointer `artifact://…`."""
        try:
            content = await self._workspace.open(hash)
        except ArtifactNotFound as error:
            raise ToolError(f"{error}.") from error
        if isinstance(content, bytes):
            raise ToolError(f"What is kept under {hash!r} is no text.")
        return content

    def _standing(self, name: str) -> dict[str, JsonValue]:
        held = self._workspace.get(name)
        if held is None:
            return {"name": name, "version": 0, "value": None}
        return {"name": name, "version": held.version, "by": held.by, "value": held.value}


def workspace_tool(name: str, workspace: Workspace) -> MethodTool:
    """One of these tools, for one turn; a write is made once, however often the call is."""
    return MethodTool(Shared, name, lambda _, place: Shared(workspace, place))
