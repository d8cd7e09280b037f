"""The built-in tools `workspace`: what a run shares, for models and scripts, reached through the context alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from pydantic import JsonValue

from teamwright.agents.context import Context, Workspace
from teamwright.agents.tools.kind import BuildOptions, NoSettings, ToolKind
from teamwright.agents.tools.protocol import Arguments, ToolContext, ToolDefinition, ToolSource
from teamwright.agents.tools.python import MethodTools
from teamwright.documents.nodes import Fields
from teamwright.errors import ArtifactNotFound, StaleWrite, ToolError
from teamwright.values.specs.manifest import WORKSPACE

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


class WorkspaceSource(ToolSource):
    """These tools, or some of them. They see the workspace as it was when the turn began, and their own writes."""

    name = kind = spec = WORKSPACE

    def __init__(self, names: Sequence[str] = NAMES, workspace: Workspace | None = None) -> None:
        self.tool_names = self._names = tuple(names)
        self._workspace = workspace
        self._methods = MethodTools(Shared, self._shared)

    def _shared(self, context: ToolContext) -> Shared:
        """Make what one call uses; its place is part of the key of a write, which is made once for each call."""
        if self._workspace is None:
            raise ToolError("The workspace is reached within a turn alone.")
        return Shared(self._workspace, context.key)

    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        """Bind the workspace of the turn."""
        yield WorkspaceSource(self._names, ctx.workspace)

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return the tools."""
        return self._methods.definitions(self._names)

    def validate(self, name: str, arguments: Arguments) -> None:
        """Check the arguments."""
        self._methods.validate(name, arguments)

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        """Read or write what the run shares."""
        return await self._methods.call(name, arguments, context)


class WorkspaceKind(ToolKind[NoSettings]):
    """`workspace`, which has no settings."""

    name = WORKSPACE
    model = NoSettings
    built_in = reserved = True

    def build(self, settings: NoSettings, options: BuildOptions) -> ToolSource:
        """Make the source."""
        return WorkspaceSource()

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the group and its tools."""
        return [WORKSPACE, *NAMES]
