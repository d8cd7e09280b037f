"""The built-in tools `workspace`: read and write the data that a run shares, through the context only.

Docstrings of the public methods of `WorkspaceMethods` and the messages of `ToolError` are part of prompts: changing one
changes effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from pydantic import JsonValue

from teamwright.agents.attachments import Attachment, FileResult, ToolValue
from teamwright.agents.contract.context import Context, Workspace
from teamwright.agents.tools.context import ToolContext
from teamwright.agents.tools.protocol import BuildOptions, NoSettings, ToolKind, ToolSource
from teamwright.agents.tools.python import MethodSource
from teamwright.documents.nodes import Fields
from teamwright.errors import ArtifactNotFound, StaleWrite, ToolError
from teamwright.values.specs.manifest import WORKSPACE
from teamwright.values.turns.artifacts import BINARY

OPEN = "open_artifact"
"""The tool that opens pointers; a model also has it if its prompt contains a pointer."""
NAMES = ("list_values", "read_value", "write_value", "keep_artifact", OPEN)


class WorkspaceMethods:
    """The tools' methods, for the call with this key. Their docstrings are the descriptions that a model sees."""

    def __init__(self, workspace: Workspace, place: str) -> None:
        self._workspace, self._call_key = workspace, place

    async def list_values(self) -> JsonValue:
        """List the values that the team shares, with their versions and who wrote them."""
        found: list[JsonValue] = []
        for name in self._workspace.names():
            held = self._workspace.get(name)
            found.append({"name": name, "version": held.version if held else 0, "by": held.by if held else ""})
        return found

    async def read_value(self, name: str) -> JsonValue:
        """Read a value that the team shares. Version 0 means that nobody has written it."""
        return self._current_value(name)

    async def write_value(self, name: str, value: JsonValue, version: int | None = None) -> JsonValue:
        """Write a value that the team shares. It is refused when others have changed it since `version`.

        Without a version the one counts that you have seen. A refusal tells what stands there now.
        """
        if version is None:
            held = self._workspace.get(name)
            version = held.version if held else 0
        try:
            written = await self._workspace.put(name, value, version=version, key=f"{self._call_key}/write")
        except StaleWrite:
            return {"written": False, **self._current_value(name)}
        return {"written": True, "name": name, "version": written}

    async def keep_artifact(self, text: str, name: str) -> JsonValue:
        """Keep a long text under a name, and get a hash by which anybody in the team can open it."""
        kept = await self._workspace.keep(text, name=name, key=f"{self._call_key}/keep")
        return {"hash": kept.hash, "name": kept.name, "size": kept.size}

    async def open_artifact(self, hash: str) -> ToolValue:
        """Open a text that somebody has kept, by its hash or by a pointer `artifact://…`."""
        try:
            content = await self._workspace.open(hash)
        except ArtifactNotFound as error:
            raise ToolError(f"{error}.") from error
        if not isinstance(content, bytes):
            return content
        if (file := Attachment(content)).media_type == BINARY:
            raise ToolError(f"What is kept under {hash!r} is no text.")
        return FileResult((file,))

    def _current_value(self, name: str) -> dict[str, JsonValue]:
        held = self._workspace.get(name)
        if held is None:
            return {"name": name, "version": 0, "value": None}
        return {"name": name, "version": held.version, "by": held.by, "value": held.value}


class WorkspaceSource(MethodSource):
    """The `workspace` tools, or some of them. They see a snapshot from the start of the turn, and their own writes."""

    name = kind = spec = WORKSPACE
    methods = WorkspaceMethods

    def __init__(self, names: Sequence[str] = NAMES, workspace: Workspace | None = None) -> None:
        self.tool_names = tuple(names)
        self._workspace = workspace

    def bind(self, context: ToolContext) -> WorkspaceMethods:
        """Create the methods for one call; its key is part of the keys of its writes, so that each is made once."""
        if self._workspace is None:
            raise ToolError("The workspace is reached within a turn alone.")
        return WorkspaceMethods(self._workspace, context.key)

    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        """Bind the workspace of the turn."""
        yield WorkspaceSource(self.tool_names or (), ctx.workspace)


class WorkspaceKind(ToolKind[NoSettings]):
    """`workspace`, which has no settings."""

    name = WORKSPACE
    model = NoSettings
    built_in = reserved = True

    def build(self, settings: NoSettings, options: BuildOptions) -> ToolSource:
        """Create the source."""
        return WorkspaceSource()

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names of the group and its tools."""
        return [WORKSPACE, *NAMES]
