"""The built-in tools `memory`: notes that an agent keeps across runs, and finds again by their words.

Docstrings of the public methods of `MemoryMethods` and the messages of `ToolError` are part of prompts: changing one
changes effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.agents.tools.context import ToolContext
from teamwright.agents.tools.protocol import BuildOptions, ToolKind, ToolSource
from teamwright.agents.tools.python import MethodSource
from teamwright.documents.nodes import Fields
from teamwright.errors import ToolError, UsageError
from teamwright.journal.stores import Note, Notes, shared_notes, words_of
from teamwright.values.call_limits import text_size
from teamwright.values.specs.manifest import MEMORY, MemorySpec, MemoryTool

NAMES = ("remember", "recall", "forget")
MOST_FOUND = 20
OWN, TEAM = "own", "team"


class MemoryMethods:
    """The tools' methods, for one call. Their docstrings are the descriptions that a model sees."""

    def __init__(self, settings: MemoryTool, context: ToolContext) -> None:
        shared = shared_notes()
        if shared is None or shared.notes is None:
            raise UsageError("The journal of this engine keeps no notes, so `memory` can't be used with it.")
        self._notes: Notes = shared.notes
        self._memory = memory_name(settings.name, shared.team, context.member)
        self._settings, self._context = settings, context

    async def remember(self, text: str) -> JsonValue:
        """Write a note that you can find again in later conversations, and get its id.

        Write one fact per note, in words that you would search for. Write no passwords or keys.

        Args:
            text: the fact
        """
        settings = self._settings
        if not text.strip():
            raise ToolError("The note is empty; write what is to be remembered.")
        if text_size(text) > settings.bytes:
            raise ToolError(f"The note is longer than {settings.bytes} bytes; write a shorter one.")
        call = self._context
        note = Note(0, self._memory, text.strip(), call.member, call.run_id, time.time())
        added = await self._notes.add(note, key=call.idempotency_key, most=settings.notes)
        if added is None:
            raise ToolError(f"The memory is full: it holds {settings.notes} notes. Forget some that are of no use.")
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
    tool_names = NAMES
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
        return [MEMORY, *NAMES]
