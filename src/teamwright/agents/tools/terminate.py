"""The built-in tool `terminate`, with which a member ends its team. Calling it ends the turn and has no other effect.

Its definition is part of prompts: changing it changes effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.agents.contract.context import Context
from teamwright.agents.tools.context import ToolContext
from teamwright.agents.tools.kind import BuildOptions, NoSettings, ToolKind
from teamwright.agents.tools.protocol import Arguments, ToolDefinition, ToolSource, text_argument
from teamwright.documents.nodes import Fields
from teamwright.errors import ToolError
from teamwright.values.specs.manifest import TERMINATE
from teamwright.values.turns.turn import Signal

DEFINITION = ToolDefinition(
    TERMINATE,
    "End the conversation when the task is done. Give the final answer as `response`.",
    {
        "type": "object",
        "properties": {"response": {"type": "string", "description": "The final answer."}},
        "required": ["response"],
    },
)


class TerminateSource(ToolSource):
    """The tool `terminate`."""

    name = kind = TERMINATE
    tool_names = (TERMINATE,)
    spec = TERMINATE
    signal: Signal | None = "terminate"

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return its one definition."""
        return (DEFINITION,)

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
