"""The tools `transfer_to_NAME`, with which a member hands its turn to another. Calling one ends the turn.

Their definitions are part of prompts: changing them changes effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

from pydantic import JsonValue

from teamwright.agents.tools.protocol import ToolDefinition, text_argument
from teamwright.values.names import transfer_tool_name
from teamwright.values.turns.turn import HandoffTarget

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
