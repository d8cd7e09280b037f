"""Reads responses in the format of chat completions: whole ones, what streamed ones share with them, and errors.

Errors become exceptions of pydantic-ai, which the caller classifies.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import NamedTuple, cast

import httpx2
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import FinishReason, ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.usage import RequestUsage
from pydantic_core import from_json, to_json

from teamwright.agents.clients.chat_request import REASONING_FIELDS, SYSTEM, Json

Category = type[
    ModelRateLimitError | ModelQuotaExceededError | ModelUnavailableError | ModelServerError | ModelRequestRejectedError
]

NO_QUOTA = frozenset((
    "insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted", "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded", "organization_usage_limit_exceeded",
))  # fmt: skip
"""Codes that say that waiting does not help; they come with the status of a rate limit."""
TOO_LONG = ("context_length_exceeded", "exceed_context_size_error")
TOO_LONG_TEXTS = (
    "maximum context length", "reduce the length of the messages", "greater than the context length",
    "longer than the model's context length", "exceeds the maximum number of tokens",
)  # fmt: skip
"""How servers that send no code for it say that a prompt is too long."""
OVERLOADED = ("overloaded", "over capacity")
STATUSES = {
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "too_many_requests", *NO_QUOTA), 429),
    **dict.fromkeys(TOO_LONG, 400),
    **dict.fromkeys(("service_unavailable", "service_unavailable_error", "server_is_overloaded", "overloaded"), 503),
    "server_error": 500,
}
"""The status that an error would have had before a stream began, by its code or type."""
CATEGORIES: dict[int, Category] = {
    HTTPStatus.BAD_REQUEST: ModelRequestRejectedError,
    HTTPStatus.UNAUTHORIZED: ModelAuthenticationError,
    HTTPStatus.PAYMENT_REQUIRED: ModelQuotaExceededError,
    HTTPStatus.FORBIDDEN: ModelAuthenticationError,
    HTTPStatus.NOT_FOUND: ModelNotFoundError,
    HTTPStatus.UNPROCESSABLE_ENTITY: ModelRequestRejectedError,
    HTTPStatus.TOO_MANY_REQUESTS: ModelRateLimitError,
    HTTPStatus.SERVICE_UNAVAILABLE: ModelUnavailableError,
    529: ModelOverloadedError,
}


class ServerError(NamedTuple):
    """The error object of a server: what it says, its code and its type."""

    message: str
    code: str | None = None
    type: str | None = None

    @classmethod
    def of(cls, body: object) -> ServerError:
        """Read an error, in whichever of the usual forms it comes."""
        body = first_of(body)
        if not isinstance(body, Mapping):
            return cls(body if isinstance(body, str) else _json(body))
        error = cast("Mapping[str, object]", body)
        if error.get("error"):
            return cls.of(error["error"])
        said = error.get("message") or error.get("detail") or error
        return cls(said if isinstance(said, str) else _json(said), _text(error.get("code")), _text(error.get("type")))

    def category(self, status: int | None) -> Category | None:
        """Return what kind of error it is: by its code and type, then by what it says, then by its status."""
        names, text = {self.code, self.type}, self.message.lower()
        if names & NO_QUOTA:
            return ModelQuotaExceededError
        if names.intersection(TOO_LONG) or any(one in text for one in TOO_LONG_TEXTS):
            return ModelContextWindowExceededError
        if any(one in (name or "") for name in names for one in OVERLOADED):
            return ModelOverloadedError
        if self.code == "model_not_found":
            return ModelNotFoundError
        if self.code == "invalid_api_key":
            return ModelAuthenticationError
        if status is None:
            return None
        server = ModelServerError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else None
        return CATEGORIES.get(status, server)


def status_error(model: str, response: httpx2.Response) -> ModelHTTPError:
    """Return the error for a response that is no success; its body has been read."""
    try:
        body: object = from_json(response.content)
    except ValueError:
        body = response.content.decode(errors="replace")
    error = ServerError.of(body)
    return ModelHTTPError.for_category(
        error.category(response.status_code),
        status_code=response.status_code,
        model_name=model,
        body=_redirection(response) or error.message.strip() or response.reason_phrase or "it gives no reason",
        headers=dict(response.headers),
        provider_error_code=error.code,
        provider_error_type=error.type,
    )


def _redirection(response: httpx2.Response) -> str | None:
    """Say where a server redirects to: no request follows it, since the key is for the declared address alone."""
    target = response.headers.get("location")
    return f"it redirects to {target!r}; if that is right, declare its URL" if response.has_redirect_location else None


def raise_reported(model: str, body: Mapping[str, object]) -> None:
    """Raise the error that a server reports with the status of a success, in place of an answer or in its choice."""
    if error := body.get("error") or (body if body.get("object") == "error" else None):
        raise reported_error(model, error)
    if body.get("finish_reason") == "error":
        raise reported_error(model, "it stopped because of an error, which it does not name")


def reported_error(model: str, body: object) -> ModelAPIError:
    """Return the error that a server sends in the middle of its reply."""
    error = ServerError.of(body)
    status = STATUSES.get(error.code or "") or STATUSES.get(error.type or "")
    if status is None and error.code is not None and error.code.isdecimal() and len(error.code) == 3:
        status = int(error.code)  # gateways send the status itself as the code
    category = error.category(status)
    if status is None:
        return (category or ModelAPIError)(
            model, error.message, body=error.message, in_stream=True,
            provider_error_code=error.code, provider_error_type=error.type,
        )  # fmt: skip
    return ModelHTTPError.for_category(
        category, status_code=status, model_name=model, body=error.message, in_stream=True,
        provider_error_code=error.code, provider_error_type=error.type,
    )  # fmt: skip


@contextmanager
def reading_errors(model: str) -> Generator[None]:
    """Raise the transport's errors as those of pydantic-ai, with the cause by which they are classified."""
    try:
        yield
    except (httpx2.TransportError, httpx2.StreamError) as error:
        kind = ModelTimeoutError if isinstance(error, httpx2.TimeoutException) else ModelConnectionError
        raise kind(model, str(error) or type(error).__name__) from error


def unreadable(model: str, error: ValueError) -> ModelAPIError:
    """Return the error for a response that is no JSON."""
    return ModelAPIError(model, f"its response is not JSON: {error}")


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _json(value: object) -> str:
    return to_json(value).decode()


def first_of(body: object) -> object:
    """Return the object in a list, in which Gemini sends its errors; anything else as it is."""
    return cast("list[object]", body)[0] if isinstance(body, list) and body else cast("object", body)


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
