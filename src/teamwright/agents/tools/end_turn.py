"""The built-in tools that end a turn: `terminate` ends the team of a member, `transfer_to_NAME` hands the turn on.

Calling one has no other effect. Their definitions are part of prompts: changing them changes effect hashes, and
recorded runs would no longer resume.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.agents.contract.context import Context
from teamwright.agents.tools.context import ToolContext
from teamwright.agents.tools.protocol import (
    Arguments,
    BuildOptions,
    NoSettings,
    ToolDefinition,
    ToolKind,
    ToolSource,
    text_argument,
)
from teamwright.documents.nodes import Fields
from teamwright.errors import ToolError
from teamwright.values.names import transfer_tool_name
from teamwright.values.specs.manifest import TERMINATE
from teamwright.values.turns.turn import HandoffTarget, Signal

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


MESSAGE = "message"
PARAMETERS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        MESSAGE: {"type": "string", "description": "What to say to the team with the transfer, if anything."}
    },
}


def transfer_definition(target: HandoffTarget) -> ToolDefinition:
    """Return the tool that hands the turn to a member, as a model sees it."""
    text = f"End your turn and hand the conversation over to {target.name!r}."
    return ToolDefinition(transfer_tool_name(target.name), f"{text} {target.description}".rstrip(), PARAMETERS)


def transfer_message(arguments: object, text: str = "") -> str:
    """Return what a member says with a transfer: the text beside the call, then its `message` argument."""
    text, message = text.strip(), (text_argument(arguments, MESSAGE) or "").strip()
    return "\n\n".join(filter(None, (text, message if message != text else "")))
