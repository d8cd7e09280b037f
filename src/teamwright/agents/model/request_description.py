"""What a request of a model agent sends, for readers: its messages, instructions, tools and settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessage,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import to_jsonable_python

from teamwright.agents.contract.effect import OfferedTool, SentMessage, SentRequest
from teamwright.agents.model.conversation import ModelConversation
from teamwright.agents.model.request_template import RequestTemplate

PRIVATE = frozenset(("extra_headers", "extra_body"))
"""Settings that may carry a key."""


def sent_request(conversation: ModelConversation, template: RequestTemplate) -> SentRequest:
    """Describe the next request of a conversation."""
    plain = template.parameters("text")
    settings = {name: value for name, value in template.settings.items() if name not in PRIVATE}
    return SentRequest(
        messages=tuple(part for message in conversation.messages for part in _parts(message)),
        instructions="\n\n".join(one.content for one in plain.instruction_parts or ()),
        tools=tuple(
            OfferedTool(one.name, one.description or "", cast("JsonValue", one.parameters_json_schema))
            for one in plain.function_tools
        ),
        settings=_json(settings),
        output_schema=_json(dict(template.schema)) if template.schema else None,
        modes=template.modes,
    )


def _parts(message: ModelMessage) -> Iterator[SentMessage]:
    for part in message.parts:
        match part:
            case UserPromptPart(content=str() as text):
                yield SentMessage("user", text)
            case UserPromptPart(content=content):
                yield SentMessage("user", "\n".join(str(one) for one in content if isinstance(one, str)))
            case SystemPromptPart(content=text) | TextPart(content=text):
                yield SentMessage("assistant" if isinstance(part, TextPart) else "user", text)
            case ThinkingPart(content=text):
                yield SentMessage("thinking", text)
            case ToolCallPart():
                yield SentMessage("tool_call", _json(part.args), part.tool_name, part.tool_call_id)
            case ToolReturnPart():
                yield SentMessage("tool_result", _json(part.content), part.tool_name, part.tool_call_id)
            case _:
                pass


def _json(value: object) -> JsonValue:
    return cast("JsonValue", to_jsonable_python(value, fallback=str))
