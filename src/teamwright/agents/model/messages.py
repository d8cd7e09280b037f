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
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from teamwright.agents.prices import cost_of, declared_price
from teamwright.values.limits.reply import cut_text, text_size
from teamwright.values.limits.usage import MOST_TOKENS, MOST_USD, Usage
from teamwright.values.specs.manifest import AnyModel
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.transcript import quote_headers, with_header
from teamwright.values.turns.turn import Turn

VOLATILE = {"timestamp", "run_id", "conversation_id"}
GENERATED_ID = "pyd_ai_"
KEYS, HASHED = "tool_keys", "hashed"
"""How a recorded response says by which keys its tool calls go; earlier versions did not say."""
KEY_DIGITS = 12
"""People name the place of a question that way. Two ids of one hash get different ids."""
LONGEST_ID = 512
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
        return message.content if speakers is None else quote_headers(message.content, speakers)
    if speakers is None:
        return f"# {message.name}:\n{message.content}"
    return with_header(message.name, message.content, speakers)


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
    dumped = cast("dict[str, JsonValue]", ModelMessagesTypeAdapter.dump_python([response], mode="json")[0])
    return {**dumped, KEYS: HASHED}


def from_record(value: JsonValue, request: int, keys: dict[str, str]) -> ModelResponse:
    """The recorded response, each tool call under an id that is unique in this turn; `keys` gets the key of each id.

    Servers may leave ids out, count from zero in every response or send no sensible ones; an id is made from the place
    then, so that it is the same on every replay. An id is a server's own text and says nothing about places in a run,
    so its hash is the key. Records of earlier versions used the id itself, and keep that.
    """
    hashed = isinstance(value, dict) and value.get(KEYS) == HASHED
    response = cast("ModelResponse", ModelMessagesTypeAdapter.validate_python([value])[0])
    parts, taken = list(response.parts), set(keys.values())
    for index, part in enumerate(parts):
        if not isinstance(part, ToolCallPart):
            continue
        call_id = part.tool_call_id
        given = bool(call_id) and not call_id.startswith(GENERATED_ID) and (not hashed or _sensible(call_id))
        if not given or call_id in keys or _key(call_id, hashed=hashed) in taken:
            call_id = f"call-{request}-{index + 1}"
            while call_id in keys or _key(call_id, hashed=hashed) in taken:
                call_id += "-again"
            parts[index] = replace(part, tool_call_id=call_id)
        keys[call_id] = key = _key(call_id, hashed=hashed)
        taken.add(key)
    return replace(response, parts=parts)


def _key(call_id: str, *, hashed: bool) -> str:
    return f"tool-{digest(call_id)[:KEY_DIGITS]}" if hashed else f"tool-{call_id}"


def _sensible(call_id: str) -> bool:
    return len(call_id) <= LONGEST_ID and call_id.isprintable()


def with_plain_usage(response: ModelResponse) -> ModelResponse:
    """The response without figures that can't be true: then it counts as one that reported no usage."""
    usage = response.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.output_reasoning_tokens)
    if all(_is_count(one) for one in (*counts, *usage.details.values())):
        return response
    return replace(response, usage=RequestUsage())


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def new_text(event: ModelResponseStreamEvent) -> str:
    """The piece of text that a stream event brings, if any."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def new_output(event: ModelResponseStreamEvent) -> str:
    """All that a stream event brings: text, thoughts, or the arguments of a tool call."""
    match event:
        case PartStartEvent(part=TextPart(content=content) | ThinkingPart(content=content)):
            return content
        case PartDeltaEvent(delta=TextPartDelta(content_delta=content) | ThinkingPartDelta(content_delta=content)):
            return content or ""
        case PartStartEvent(part=ToolCallPart(args=args)) | PartDeltaEvent(delta=ToolCallPartDelta(args_delta=args)):
            return _text(args)
        case _:
            return ""


def cut_response(response: ModelResponse, max_bytes: int) -> ModelResponse:
    """What was read of a response that was stopped, its texts within the size cap."""
    parts, room = list(response.parts), max_bytes
    for index, part in enumerate(parts):
        if isinstance(part, TextPart | ThinkingPart):
            content = cut_text(part.content, room)
            parts[index], room = replace(part, content=content), room - text_size(content)
    return replace(response, parts=parts, finish_reason="length", state="complete")


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
        except (AssertionError, ArithmeticError, LookupError, ValueError):
            usd = None
        if usd is not None and not 0 <= usd <= MOST_USD:
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
