"""Translates between turns and pydantic-ai's messages, and sizes and recognises what is sent."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from teamwright.agents.prices import cost_of, declared_price
from teamwright.values.messages import Message, digest
from teamwright.values.specs import AnyModel
from teamwright.values.transcript import quoted, under_name
from teamwright.values.turns import Turn
from teamwright.values.usage import Usage

VOLATILE = {"timestamp", "run_id", "conversation_id"}
GENERATED_ID = "pyd_ai_"
SPOKEN_FIELDS = ("content", "tool_name", "args")


def told(turn: Turn, name: str) -> list[ModelMessage]:
    """The history of a turn as the member `name` sees it: what it said itself, and what others said under their names.

    Some providers refuse a conversation that the assistant opens, so what the member said before anybody else
    is told under its name too.
    """
    messages: list[ModelMessage] = []
    speakers = None if turn.quoting == "none" else turn.speakers
    for message in turn.history:
        if not message.content.strip():
            continue  # providers refuse empty messages
        if message.name == name and message.role != "user" and messages:
            messages.append(ModelResponse(parts=[TextPart(message.content)]))
        else:
            messages.append(ModelRequest(parts=[UserPromptPart(_under_name(message, speakers))]))
    return messages


def _under_name(message: Message, speakers: Collection[str] | None) -> str:
    """What somebody said, under a name unless a person did; without `speakers` as it is."""
    if message.role == "user":
        return message.content if speakers is None else quoted(message.content, speakers)
    if speakers is None:
        return f"# {message.name}:\n{message.content}"
    return under_name(message.name, message.content, speakers)


@dataclass(frozen=True, slots=True)
class Sent:
    """What goes out with a request: a digest to recognise it by, and its size."""

    digest: str
    prompt_bytes: int
    messages: int

    @classmethod
    def of(
        cls, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> Sent:
        """Size and digest, both without times and ids that differ from run to run and without the output cap."""
        dumped = cast("list[dict[str, Any]]", ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
        parts = [_stable(part) for message in dumped for part in message["parts"]]
        instructions = _instructions(messages, parameters)
        offered = _offered(parameters)
        plain_settings = {key: value for key, value in (settings or {}).items() if key != "max_tokens"}
        spoken = [_text(part.get(field)) for part in parts for field in SPOKEN_FIELDS]
        return cls(
            digest(_json(parts), instructions, offered, _json(plain_settings)),
            sum(len(text.encode("utf-8", "surrogatepass")) for text in (*spoken, instructions, offered)),
            len(parts) + bool(instructions),
        )


def _stable(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in VOLATILE}


def _text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _instructions(messages: list[ModelMessage], parameters: ModelRequestParameters) -> str:
    if parameters.instruction_parts is not None:
        return "\n\n".join(part.content for part in parameters.instruction_parts)
    requests = [message.instructions for message in messages if isinstance(message, ModelRequest)]
    return (requests[-1] if requests else None) or ""


def _offered(parameters: ModelRequestParameters) -> str:
    """Tools and the shape of the answer, as they are sent; nothing when there are none."""
    tools: Sequence[ToolDefinition] = (*parameters.function_tools, *parameters.output_tools)
    offered: list[object] = [[one.name, one.description, one.parameters_json_schema] for one in tools]
    if parameters.output_object is not None:
        offered.append(parameters.output_object.json_schema)
    return _json(offered) if offered else ""


def to_record(response: ModelResponse) -> JsonValue:
    """The response as data."""
    return cast("JsonValue", ModelMessagesTypeAdapter.dump_python([response], mode="json")[0])


def from_record(value: JsonValue, request: int, seen: set[str]) -> ModelResponse:
    """The recorded response, with each tool call under an id that is unique among those `seen` in this turn.

    Servers may leave ids out or count from zero in every response; an id is made from the place then, so that it
    is the same on every replay.
    """
    response = cast("ModelResponse", ModelMessagesTypeAdapter.validate_python([value])[0])
    parts = list(response.parts)
    for index, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            call_id = part.tool_call_id
            if not call_id or call_id.startswith(GENERATED_ID) or call_id in seen:
                call_id = f"call-{request}-{index + 1}"
                parts[index] = replace(part, tool_call_id=call_id)
            seen.add(call_id)
    return replace(response, parts=parts)


def new_text(event: ModelResponseStreamEvent) -> str:
    """The piece of text that a stream event brings, if any."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def with_note(messages: list[ModelMessage], note: str) -> list[ModelMessage]:
    """The messages with one more line for the model, where it speaks next."""
    *before, last = messages
    if not isinstance(last, ModelRequest):
        return messages
    return [*before, replace(last, parts=[*last.parts, UserPromptPart(note)])]


def spent(response: ModelResponse, model: AnyModel) -> Usage:
    """What a response cost; money only where the price of the model is known.

    A declared price comes first; else what the provider says it used is priced, under the name that it answers by.
    """
    usage, usd = response.usage, None
    if declared_price(model) is None:
        try:
            usd = round(float(response.cost().total_price), 12)
        except (AssertionError, LookupError, ValueError):
            usd = None
    used = Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        reasoning_tokens=usage.output_reasoning_tokens or usage.details.get("reasoning_tokens", 0),
        usd=usd,
    )
    return used if usd is not None else used.changed(usd=cost_of(model, used))
