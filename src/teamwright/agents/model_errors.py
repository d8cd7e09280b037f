"""Turns what pydantic-ai raises into the failures that recovery knows, by type and error code and never by prose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)

from teamwright.errors import (
    AgentError,
    AgentTimeout,
    ContextTooLong,
    InvalidOutput,
    RateLimited,
    Refused,
    ServiceError,
)

LONGEST_REASON = 300
CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error"}

# Top down, the first that fits: the more special ones stand before those they are made from.
CLASSES: tuple[tuple[type[AgentRunError], type[AgentError], str], ...] = (
    (ModelRateLimitError, RateLimited, "asks for fewer requests"),
    (ModelQuotaExceededError, Refused, "has no quota left; check the account"),
    (ModelContextWindowExceededError, ContextTooLong, "can't take a prompt that long"),
    (ModelRequestRejectedError, Refused, "refused the request"),
    (ModelRequestTimeout, AgentTimeout, "took too long"),
    (ModelTimeoutError, AgentTimeout, "took too long"),
    (ModelConnectionError, ServiceError, "can't be reached"),
    (ModelUnavailableError, ServiceError, "is not available"),
    (ModelServerError, ServiceError, "failed on its side"),
    (ContentFilterError, Refused, "refused to answer"),
    (UnexpectedModelBehavior, InvalidOutput, "gave no usable answer"),
)


def classify(error: AgentRunError, model: str) -> AgentError:
    """The failure that an error of a model call stands for."""
    kind, what = _kind(error)
    status = f", HTTP {error.status_code}" if isinstance(error, ModelHTTPError) else ""
    wait = error.retry_after if isinstance(error, ModelAPIError) else None
    return kind(f"The model {model!r} {what}{status}: {_reason(error)}", retry_after=wait)


def _kind(error: AgentRunError) -> tuple[type[AgentError], str]:
    if isinstance(error, ModelAPIError) and CONTEXT_CODES & {error.provider_error_code, error.provider_error_type}:
        return ContextTooLong, "can't take a prompt that long"
    for found, kind, what in CLASSES:
        if isinstance(error, found):
            return kind, what
    if isinstance(error, ModelHTTPError):
        return (AgentTimeout, "took too long") if error.status_code == 408 else (Refused, "refused the request")
    return ServiceError, "answered in a way that can't be read"


def _reason(error: AgentRunError) -> str:
    """What the provider said, without the rest of its answer."""
    body: object = error.body if isinstance(error, ModelAPIError) else None
    for key in ("error", "message"):
        if isinstance(body, Mapping) and key in body:
            body = cast("Mapping[str, object]", body)[key]
    reason = body if isinstance(body, str) and body.strip() else error.message
    return reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + "…"
