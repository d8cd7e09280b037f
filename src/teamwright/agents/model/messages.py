"""Converts between turns and pydantic-ai's messages, and measures and hashes requests."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import cast

from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage
from pydantic_core import from_json, to_json

from teamwright.agents.prices import cost_of, cost_of_response, declared_price
from teamwright.values.call_limits import OutputLimit, cut_text, text_size
from teamwright.values.events.agent import PartialUsage
from teamwright.values.run_keys import tool_place
from teamwright.values.specs.models import AnyModel
from teamwright.values.turns.messages import Message, digest, quote_headers, with_header
from teamwright.values.usage_and_prices import MOST_TOKENS, Usage

GENERATED_ID = "pyd_ai_"
MODE = "output_mode"
"""The field of a recorded response that names the mode of its answer, if it is not the one that was tried first."""
LIMIT = "output_limit"
"""The field of a recorded response that names the output limit at which it was cut: who set it, and its tokens."""
KEY_DIGITS = 12
"""Short, because people type these keys to answer a question. On a collision, the second id is replaced."""
LONGEST_ID = 512


def text_under_name(message: Message, speakers: Collection[str]) -> str:
    """The quoted content of a message, with the name of its author unless it is a person."""
    if message.role == "user":
        return quote_headers(message.content, speakers)
    return with_header(message.name, message.content, speakers)


def to_record(response: ModelResponse, output_mode: str | None = None, limit: OutputLimit | None = None) -> JsonValue:
    """Convert a response to JSON for the record, with its output mode and the limit that cut it, where there is one."""
    dumped = cast("dict[str, JsonValue]", ModelMessagesTypeAdapter.dump_python([response], mode="json")[0])
    record: dict[str, JsonValue] = _given(dumped)
    record["parts"] = [_given(cast("dict[str, JsonValue]", part)) for part in cast("list[JsonValue]", dumped["parts"])]
    record["usage"] = {name: value for name, value in cast("dict[str, JsonValue]", dumped["usage"]).items() if value}
    if output_mode is not None:
        record[MODE] = output_mode
    if limit is not None:
        record[LIMIT] = [limit.by, limit.tokens]
    return record


def _given(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The fields that a response or a part of it has; reading gives the others their defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def output_limit_of(record: JsonValue) -> OutputLimit | None:
    """Return the output limit that cut a recorded response; `None` if none did."""
    match record.get(LIMIT) if isinstance(record, dict) else None:
        case ["max_tokens" | "asker" | "budget" | "model" as by, int() | None as tokens]:
            return OutputLimit(by, tokens)
        case _:
            return None


def decode_response(value: JsonValue) -> ModelResponse:
    """Decode a recorded response, with the ids that the server gave."""
    return cast("ModelResponse", ModelMessagesTypeAdapter.validate_python([value])[0])


def with_unique_ids(response: ModelResponse, request: int | str, keys: dict[str, str]) -> ModelResponse:
    """Give each tool call of a response an id that is unique in this turn, and add its key to `keys`.

    Servers may omit ids, count from zero in every response, or send unusable ones; such an id is replaced by one made
    from the position, which is the same on every replay. An id is arbitrary text of the server, so its hash is the key.
    """
    parts, taken = list(response.parts), set(keys.values())
    for index, part in enumerate(parts):
        if not isinstance(part, ToolCallPart):
            continue
        call_id = part.tool_call_id
        given = bool(call_id) and not call_id.startswith(GENERATED_ID) and _is_usable_id(call_id)
        if not given or call_id in keys or _tool_key(call_id) in taken:
            call_id = f"call-{request}-{index + 1}"
            while call_id in keys or _tool_key(call_id) in taken:
                call_id += "-again"
            parts[index] = replace(part, tool_call_id=call_id)
        keys[call_id] = key = _tool_key(call_id)
        taken.add(key)
    return replace(response, parts=parts)


def _tool_key(call_id: str) -> str:
    return tool_place(digest(call_id)[:KEY_DIGITS])


def _is_usable_id(call_id: str) -> bool:
    return len(call_id) <= LONGEST_ID and call_id.isprintable()


def with_plain_usage(response: ModelResponse) -> ModelResponse:
    """Remove the usage of a response if its figures are impossible, as if none had been reported."""
    usage = response.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    if all(_is_count(one) for one in (*counts, usage.output_reasoning_tokens, *usage.details.values())):
        return response
    return replace(response, usage=RequestUsage())


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def arguments_text(value: object) -> str:
    """The arguments of a tool call, or a piece of them, as text."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def compact_arguments(value: object) -> str:
    """The arguments of a tool call for a digest: compact JSON, whatever form and spaces a model has sent them in."""
    read: object = value or {}
    if isinstance(read, str):
        try:
            read = cast("object", from_json(read))
        except ValueError:
            read = None
    return to_json(cast("object", read) if isinstance(read, dict) else {"INVALID_JSON": value}).decode()


def sent_arguments(call: ToolCallPart) -> str:
    """Return the arguments of a call as text, as the model wrote them; nothing is an empty object."""
    return call.args if isinstance(call.args, str) and call.args else compact_arguments(call.args)


def response_text(response: ModelResponse) -> str:
    """Return the text of a response, without what was thought and called."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart)).strip()


def output_size(response: ModelResponse) -> int:
    """The bytes of all output in a response: text, thinking, and the arguments of tool calls."""
    size = 0
    for part in response.parts:
        match part:
            case TextPart(content=content) | ThinkingPart(content=content):
                size += text_size(content)
            case ToolCallPart(args=args):
                size += text_size(arguments_text(args))
            case _:
                pass
    return size


def cut_response(response: ModelResponse, max_bytes: int) -> ModelResponse:
    """Cut the texts of a stopped response to the size cap."""
    parts, room = list(response.parts), max_bytes
    for index, part in enumerate(parts):
        if isinstance(part, TextPart | ThinkingPart):
            content = cut_text(part.content, room)
            parts[index], room = replace(part, content=content), room - text_size(content)
    return replace(response, parts=parts, finish_reason="length", state="complete")


def with_note(messages: list[ModelMessage], note: str) -> list[ModelMessage]:
    """Append a line for the model to the last request."""
    *before, last = messages
    if not isinstance(last, ModelRequest):
        return messages
    return [*before, replace(last, parts=[*last.parts, UserPromptPart(note)])]


def omitted_part(response: ModelResponse) -> PartialUsage | None:
    """Return which part of a response its usage does not count; `None` if it counts both, or reports nothing at all."""
    used = response.usage
    if used.input_tokens and not used.output_tokens and output_size(response):
        return "no_output"
    return "no_input" if used.output_tokens and not used.input_tokens else None


def with_arrived(usage: Usage, arrived: tuple[int, int], model: AnyModel) -> Usage:
    """Return the usage of a response that was not read to its end: at least what has arrived of it."""
    before, output = arrived
    used = usage.changed(
        input_tokens=max(usage.input_tokens, before), output_tokens=max(usage.output_tokens, output), usd=None
    )
    return used.changed(usd=cost_of(model, used))


def reasoning_tokens(response: ModelResponse) -> int:
    """Return the tokens of a response that its provider reports as reasoning."""
    return response.usage.output_reasoning_tokens or response.usage.details.get("reasoning_tokens", 0)


def usage_of_response(response: ModelResponse, model: AnyModel) -> Usage:
    """Return the usage of a response, with its cost if the price of the model is known.

    A declared price takes precedence; else the reported usage is priced by the model name in the response.
    """
    usage, declared = response.usage, declared_price(model)
    usd = None if declared else cost_of_response(response)
    used = Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        reasoning_tokens=reasoning_tokens(response),
        usd=usd,
    )
    if usd is None and (declared_usd := cost_of(model, used)) is not None:
        used = used.changed(usd=declared_usd)
    if not (usage.cache_read_tokens or usage.cache_write_tokens):
        return used
    if declared:
        return used.changed(saved_usd=declared.saved(used))
    plain = RequestUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    without = cost_of_response(replace(response, usage=plain))
    return used if usd is None or without is None else used.changed(saved_usd=round(without - usd, 12))
