"""Reads responses in the format of chat completions: whole ones, and what whole and streamed ones have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple, cast

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import FinishReason, ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.usage import RequestUsage
from pydantic_core import from_json, to_json

from teamwright.agents.clients.chat_completions.errors import first_of, raise_reported, unreadable
from teamwright.agents.clients.chat_completions.request import REASONING_FIELDS, SYSTEM, Json

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "content_filter": "content_filter",
    "function_call": "tool_call",
}
LATEST = 253_402_300_799  # the last second of the year 9999


class ResponseOrigin(NamedTuple):
    """Where a response comes from: the model that was asked, and its URL."""

    model: str
    url: str


def read_response(content: bytes, origin: ResponseOrigin) -> ModelResponse:
    """Read a whole response; raises an error of pydantic-ai if it is malformed."""
    try:
        body = first_of(from_json(content))
    except ValueError as error:
        raise unreadable(origin.model, error) from error
    if not isinstance(body, dict):
        raise malformed("choices")
    body = cast("Json", body)
    raise_reported(origin.model, body)
    choice = _first_choice(body)
    raise_reported(origin.model, choice)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise malformed("choices.0.message")
    message = cast("Json", message)
    refusal, reason = text_of(message.get("refusal")), text_of(choice.get("finish_reason"))
    details = {**details_of(body), **({} if refusal else choice_details(choice))}
    if refusal:
        details["refusal"] = refusal
    logprobs = logprobs_of(choice)
    return ModelResponse(
        parts=[] if refusal else _parts(message),
        usage=usage_of(body.get("usage")),
        model_name=text_of(body.get("model")) or origin.model,
        provider_details={**details, "logprobs": logprobs} if logprobs else details or None,
        provider_response_id=text_of(body.get("id")) or None,
        provider_name=SYSTEM,
        provider_url=origin.url,
        finish_reason="content_filter" if refusal else FINISH_REASONS.get(reason or "stop"),
    )


def _first_choice(body: Json) -> Json:
    choices: object = body.get("choices")
    first: object = cast("list[object]", choices)[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        raise malformed("choices")
    return cast("Json", first)


def _parts(message: Json) -> list[ModelResponsePart]:
    parts: list[ModelResponsePart] = []
    field, thought = reasoning_of(message)
    if thought:
        parts.append(ThinkingPart(thought, id=field, provider_name=SYSTEM))
    if content := content_text(message.get("content")):
        parts.append(TextPart(content))
    calls: object = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise malformed("choices.0.message.tool_calls")
    for place, call in enumerate(cast("list[object]", calls)):
        called = cast("Json", call) if isinstance(call, dict) else {}
        function = cast("Json", called.get("function")) if isinstance(called.get("function"), dict) else {}
        if not isinstance(name := function.get("name"), str):
            raise malformed(f"choices.0.message.tool_calls.{place}.function")
        parts.append(tool_call(name, arguments_of(function.get("arguments")), called))
    return parts


def arguments_of(given: object) -> str:
    """Return the arguments of a call, or a piece of them, as text; some servers send them as an object."""
    if isinstance(given, str):
        return given
    return to_json(given).decode() if given else ""


def tool_call(name: str, arguments: str, call: Json) -> ToolCallPart:
    """Return a call of a tool. A signature that some models put beside it has to go back unchanged."""
    part = ToolCallPart(name, arguments)
    if call_id := text_of(call.get("id")):
        part.tool_call_id = call_id
    if extra := call.get("extra_content"):
        part.provider_name, part.provider_details = SYSTEM, {"extra_content": extra}
    return part


def malformed(place: str) -> UnexpectedModelBehavior:
    """Return the error for a response that lacks something, or has it in a wrong form."""
    return UnexpectedModelBehavior(f"its response is malformed: {place}")


def text_of(value: object) -> str:
    """Return a text, or an empty one for anything else."""
    return value if isinstance(value, str) else ""


def content_text(content: object) -> str:
    """Return the text of a message; some servers send it as a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise malformed("choices.0.message.content")
    parts = cast("list[object]", content)
    return "".join(text_of(cast("Json", one).get("text")) if isinstance(one, dict) else text_of(one) for one in parts)


def reasoning_of(message: Json) -> tuple[str, str]:
    """Return the field with what the model thought, and that; empty texts if there is none."""
    for field in REASONING_FIELDS:
        if (thought := message.get(field)) and isinstance(thought, str):
            return field, thought
    return "", ""


def details_of(body: Json) -> Json:
    """Return what a provider says beside the answer."""
    details: Json = {name: body[name] for name in ("moderation", "service_tier") if body.get(name)}
    created = body.get("created")
    if isinstance(created, int | float) and 0 < created <= LATEST:
        details["timestamp"] = datetime.fromtimestamp(created, UTC)
    return details


def choice_details(choice: Json) -> Json:
    """Return the reason for which a model stopped, in the words of its provider."""
    reason = text_of(choice.get("finish_reason"))
    return {"finish_reason": reason} if reason else {}


def logprobs_of(choice: Json) -> list[Json]:
    """Return the probabilities of the tokens of a response, if they were requested."""
    found: object = choice.get("logprobs")
    content: object = cast("Json", found).get("content") if isinstance(found, dict) else None
    return cast("list[Json]", content) if isinstance(content, list) else []


def usage_of(reported: object) -> RequestUsage:
    """Read the usage of a response; if it is impossible, nothing counts as reported."""
    if not isinstance(reported, dict):
        return RequestUsage(unmeasured_requests=1)
    usage = cast("Json", reported)
    sent, received = _details(usage, "prompt_tokens_details"), _details(usage, "completion_tokens_details")
    if not isinstance(usage.get("prompt_tokens"), int) or not isinstance(usage.get("completion_tokens"), int):
        return RequestUsage(details=received)
    counts = {
        "input_tokens": usage["prompt_tokens"],
        "output_tokens": usage["completion_tokens"],
        "cache_read_tokens": sent.get("cached_tokens", 0),
        "cache_write_tokens": sent.get("cache_write_tokens", 0),
        "input_audio_tokens": sent.get("audio_tokens", 0),
        "output_audio_tokens": received.get("audio_tokens", 0),
        "output_reasoning_tokens": received.get("reasoning_tokens", 0),
    }
    if any(count < 0 for count in counts.values()):
        return RequestUsage(details=received)
    return RequestUsage(**{name: count for name, count in counts.items() if count}, details=received)


def _details(usage: Json, name: str) -> dict[str, int]:
    found: object = usage.get(name)
    items = cast("Json", found).items() if isinstance(found, dict) else ()
    return {key: value for key, value in items if isinstance(value, int)}
