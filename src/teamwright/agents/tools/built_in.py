"""The built-in tools `terminate`, `transfer_to_NAME`, `memory` and `workspace`, and agents and teams as tools.

The first two end a turn and have no other effect. Notes in a memory outlive runs; a workspace is the data that one run
shares. The call of an agent is an ask of the same run and no effect of its own. Definitions, docstrings of the public
methods of `MemoryMethods` and `WorkspaceMethods`, and the messages of `ToolError` are part of prompts: changing one
changes effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import cast

from pydantic import JsonValue

from teamwright.agents.agent import Agent, Context, Workspace, agent_spec_of, require_agent
from teamwright.agents.attachments import Attachment, FileResult, ToolValue
from teamwright.agents.constructor_arguments import checked_call
from teamwright.agents.json_schema import check
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
from teamwright.errors import ArtifactNotFound, InvalidOutput, StaleWrite, ToolError, UsageError
from teamwright.journal.agent_notes import SHARED_NOTES, Note, Notes, words_of
from teamwright.values.call_limits import text_size
from teamwright.values.names import as_tool_name, check_name, transfer_tool_name
from teamwright.values.run_keys import join_key
from teamwright.values.specs.tools import MEMORY, TERMINATE, WORKSPACE, AgentTool, MemorySpec, MemoryTool
from teamwright.values.turns.artifacts import BINARY
from teamwright.values.turns.turn import Failure, HandoffTarget, Purpose, Reply, Signal, Turn

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


AGENT, TASK = "agent", "task"
TASK_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        TASK: {
            "type": "string",
            "description": "What to do, with everything that is needed for it.",
        }
    },
    "required": [TASK],
}


class AgentSource(ToolSource):
    """The tool that asks `agent`. Its arguments are one text, `task`, or the agent's input schema if that is an object.

    Toolboxes ask the agent with `ask` and never call the tool.
    """

    kind = AGENT

    def __init__(self, agent: Agent, *, name: str | None = None, description: str | None = None) -> None:
        self.agent = require_agent(agent)
        if agent.policy.handoffs:
            raise UsageError(f"{agent.name!r} has handoffs, so it can't be a tool; make its team the tool.")
        self.name = check_name("tool", name or as_tool_name(agent.name))
        self.tool_names = (self.name,)
        given = {"agent": agent.name, "name": name, "description": description}
        self.spec = AgentTool(**{field: value for field, value in given.items() if value is not None})
        self._description = description

    @cached_property
    def _input_schema(self) -> dict[str, JsonValue] | None:
        """The agent's input schema, if a call can have it as its arguments."""
        schema = agent_spec_of(self.agent).input_schema
        return schema if schema is not None and schema.get("type") == "object" else None

    @cached_property
    def definition(self) -> ToolDefinition:
        """The tool as a model sees it."""
        text = self._description or self.agent.description or f"Ask {self.agent.name!r} to do a part of the work."
        return ToolDefinition(self.name, text, self._input_schema or TASK_SCHEMA)

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return (self.definition,)

    def validate(self, name: str, arguments: Arguments) -> None:
        """Check the arguments against the input schema, or that they are one text."""
        if self._input_schema is not None:
            try:
                check(self._input_schema, cast("JsonValue", dict(arguments)), f"The arguments of the tool {name!r}")
            except InvalidOutput as error:
                raise ToolError(str(error)) from error
            return
        task = arguments.get(TASK)
        if len(arguments) != 1 or not isinstance(task, str) or not task.strip():
            raise ToolError(f"The tool {name!r} takes one argument, {TASK!r}, a text that is not empty.")

    async def ask(self, arguments: Arguments, ctx: Context, place: str, purpose: Purpose) -> Reply | Failure:
        """Ask the agent below `place` of the context."""
        task = arguments[TASK] if self._input_schema is None else json.dumps(dict(arguments), ensure_ascii=False)
        turn = Turn(str(task), purpose=purpose, aside=True)
        return await ctx.ask(self.agent, turn, key=join_key(place, self.agent.name))

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        """Raise `ToolError`: the agent is asked instead."""
        raise ToolError(f"{name!r} is an agent, which is asked and not called.")


class AgentKind(ToolKind[AgentTool]):
    """`{agent: NAME, name: …, description: …}`: an agent or a team of the same manifest."""

    name = AGENT
    model = AgentTool
    noun = "agent"

    def build(self, settings: AgentTool, options: BuildOptions) -> ToolSource:
        """Raise `UsageError`: only a manifest knows agents by name, and its builder creates the source."""
        raise UsageError(
            f"The tool {{agent: {settings.agent}}} names an agent of a manifest; in Python pass the agent itself:"
            "  tools=[agent]  or  tools=[as_tool(agent, name=…)]."
        )

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return its one name: the declared one, else that of the agent."""
        if name or fields is None:
            return [name]
        own, agent = fields.text("name"), fields.text(AGENT)
        return [str(own.value)] if own else [as_tool_name(str(agent.value))] if agent else []


@checked_call("tool")
def as_tool(agent: Agent, *, name: str | None = None, description: str | None = None) -> ToolSource:
    """Return an agent or a team as a tool, under another name or description than its own."""
    return AgentSource(agent, name=name, description=description)
