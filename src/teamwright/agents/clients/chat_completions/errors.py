"""Errors of a server in the format of OpenAI, as the exceptions of pydantic-ai, which the caller classifies."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
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
)
from pydantic_core import from_json, to_json

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
