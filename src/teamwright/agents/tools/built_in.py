"""The built-in tools `terminate`, `transfer_to_NAME`, `memory` and `workspace`.

The first two end a turn and have no other effect. Notes in a memory outlive runs; a workspace is the data that one run
shares. Definitions, docstrings of the public methods of `MemoryMethods` and `WorkspaceMethods`, and the messages of
`ToolError` are part of prompts: changing one changes effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from pydantic import JsonValue

from teamwright.agents.attachments import Attachment, FileResult, ToolValue
from teamwright.agents.contract.agent import Context, Workspace
from teamwright.agents.tools.protocol import (
    Arguments,
    BuildOptions,
    NoSettings,
    ToolContext,
    ToolDefinition,
    ToolKind,
    ToolSource,
    text_argument,
)
from teamwright.agents.tools.python import MethodSource
from teamwright.documents.nodes import Fields
from teamwright.errors import ArtifactNotFound, StaleWrite, ToolError, UsageError
from teamwright.journal.agent_notes import SHARED_NOTES, Note, Notes, words_of
from teamwright.values.call_limits import text_size
from teamwright.values.names import transfer_tool_name
from teamwright.values.specs.tools import MEMORY, TERMINATE, WORKSPACE, MemorySpec, MemoryTool
from teamwright.values.turns.artifacts import BINARY
from teamwright.values.turns.turn import HandoffTarget, Signal

TERMINATE_DEFINITION = ToolDefinition(
    TERMINATE,
    "End the conversation when the task is done. Give the final answer as `response`.",
    {
        "type": "object",
        "properties": {"response": {"type": "string", "description": "The final answer."}},
        "required": ["response"],
    },
)
TRANSFER_MESSAGE = "message"
TRANSFER_PARAMETERS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        TRANSFER_MESSAGE: {"type": "string", "description": "What to say to the team with the transfer, if anything."}
    },
}
MEMORY_TOOLS = ("remember", "recall", "forget")
MOST_FOUND = 20
OWN, TEAM = "own", "team"
OPEN_ARTIFACT = "open_artifact"
"""The tool that opens pointers; a model also has it if its prompt contains a pointer."""
WORKSPACE_TOOLS = ("list_values", "read_value", "write_value", "keep_artifact", OPEN_ARTIFACT)


class TerminateSource(ToolSource):
    """The tool `terminate`."""

    name = kind = TERMINATE
    tool_names = (TERMINATE,)
    spec = TERMINATE
    signal: Signal | None = "terminate"

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return its one definition."""
        return (TERMINATE_DEFINITION,)

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        """Raise `ToolError`: the agent ends its turn instead of calling it."""
        raise ToolError(f"{name!r} ends a turn and can't be called.")


class TerminateKind(ToolKind[NoSettings]):
    """`terminate`, which has no settings."""

    name = TERMINATE
    model = NoSettings
    built_in = reserved = True

    def build(self, settings: NoSettings, options: BuildOptions) -> ToolSource:
        """Create the source."""
        return TerminateSource()

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return its one name."""
        return [TERMINATE]


def final_response(arguments: object) -> str | None:
    """Return the `response` argument of a `terminate` call, or `None` if it is malformed, which terminates too."""
    return text_argument(arguments, "response")


def transfer_definition(target: HandoffTarget) -> ToolDefinition:
    """Return the tool that hands the turn to a member, as a model sees it."""
    text = f"End your turn and hand the conversation over to {target.name!r}."
    return ToolDefinition(transfer_tool_name(target.name), f"{text} {target.description}".rstrip(), TRANSFER_PARAMETERS)


def transfer_message(arguments: object, text: str = "") -> str:
    """Return what a member says with a transfer: the text beside the call, then its `message` argument."""
    text, message = text.strip(), (text_argument(arguments, TRANSFER_MESSAGE) or "").strip()
    return "\n\n".join(filter(None, (text, message if message != text else "")))


MOST_NOTES, MOST_NOTE_BYTES = 1000, 4000
"""The notes that a memory holds, and the bytes of one."""


class MemoryMethods:
    """The tools' methods, for one call. Their docstrings are the descriptions that a model sees."""

    def __init__(self, settings: MemoryTool, context: ToolContext) -> None:
        shared = SHARED_NOTES.get()
        if shared is None or shared.notes is None:
            raise UsageError("The journal of this engine keeps no notes, so `memory` can't be used with it.")
        self._notes: Notes = shared.notes
        self._memory = memory_name(settings.name, shared.team, context.member)
        self._context = context

    async def remember(self, text: str) -> JsonValue:
        """Write a note that you can find again in later conversations, and get its id.

        Write one fact per note, in words that you would search for. Write no passwords or keys.

        Args:
            text: the fact
        """
        if not text.strip():
            raise ToolError("The note is empty; write what is to be remembered.")
        if text_size(text) > MOST_NOTE_BYTES:
            raise ToolError(f"The note is longer than {MOST_NOTE_BYTES} bytes; write a shorter one.")
        call = self._context
        note = Note(0, self._memory, text.strip(), call.member, call.run_id, time.time())
        added = await self._notes.add(note, key=call.idempotency_key, most=MOST_NOTES)
        if added is None:
            raise ToolError(f"The memory is full: it holds {MOST_NOTES} notes. Forget some that are of no use.")
        return {"id": added.id}

    async def recall(self, query: str = "", limit: int = 5) -> JsonValue:
        """Search your notes by words, the best match first; without words, get the newest notes.

        Args:
            query: words that the notes contain
            limit: how many notes at most, up to 20
        """
        found = await self._notes.search(self._memory, words_of(query), max(1, min(limit, MOST_FOUND)))
        return {"notes": [{"id": one.id, "text": one.text} for one in found]}

    async def forget(self, id: int) -> JsonValue:
        """Remove a note that is wrong or of no use any more.

        Args:
            id: the id of the note
        """
        if not await self._notes.forget(self._memory, id, key=self._context.idempotency_key):
            raise ToolError(f"There is no note {id}; search for its id with recall.")
        return {"forgotten": id}


def memory_name(name: str, team: str, member: str) -> str:
    """Return the full name of a memory: of one member of a team, of the team, or a name that others share.

    Only the first two contain a slash, so no shared name is that of a team's memory.
    """
    return f"{team}/{member}" if name == OWN else f"{team}/" if name == TEAM else name


class MemorySource(MethodSource):
    """The `memory` tools of one agent."""

    name = kind = MEMORY
    tool_names = MEMORY_TOOLS
    methods = MemoryMethods

    def __init__(self, settings: MemoryTool, spec: MemorySpec | str | None = None) -> None:
        self.spec = MemorySpec(memory=settings) if spec is None else spec
        self._settings = settings

    def bind(self, context: ToolContext) -> MemoryMethods:
        """Create the tools of one call in the memory of its member."""
        return MemoryMethods(self._settings, context)


class MemoryKind(ToolKind[MemoryTool]):
    """`memory`, by name alone or with settings."""

    name = MEMORY
    model = MemoryTool
    built_in = reserved = True

    def build(self, settings: MemoryTool, options: BuildOptions) -> ToolSource:
        """Create the source."""
        return MemorySource(settings, options.spec if isinstance(options.spec, str | MemorySpec) else None)

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names of the group and its tools."""
        return [MEMORY, *MEMORY_TOOLS]


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
        except UsageError as error:
            raise ToolError(str(error)) from error
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

    def __init__(self, names: Sequence[str] = WORKSPACE_TOOLS, workspace: Workspace | None = None) -> None:
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
        return [WORKSPACE, *WORKSPACE_TOOLS]
