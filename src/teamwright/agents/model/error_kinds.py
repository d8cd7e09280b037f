"""The kind of error that a failed model call is: by its HTTP status, exception and error code, never by message text;
and when a provider takes calls again, where it says so in another way than by `Retry-After`.

Which kinds may be retried says `retryable` of the classes in `errors.py`; which of them are, a policy in
`values/retries.py`. A time that can't be read counts as not said. Nothing here decides to wait.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
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
    ModelRetry,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    ToolRetryError,
    UnexpectedModelBehavior,
)
from pydantic_core import ValidationError

from teamwright.agents.clients.http_transport import (
    CertificatesUnreadable,
    HeaderInvalid,
    ReplyBroken,
    ReplyRefused,
    ReplySilent,
)
from teamwright.errors import (
    AgentError,
    AgentTimeout,
    ContextTooLong,
    InvalidInput,
    InvalidOutput,
    InvalidRequest,
    RateLimited,
    Refused,
    ServiceError,
)
from teamwright.values.text.display import cut

RESET = re.compile(r"(?P<family>.*ratelimit)(?P<infix>.*?)-reset(?P<limit>-.+)?")
"""The header of when a limit is full again; beside it, one says with `remaining` how much is left of the limit."""
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
LEAST_INSTANT = 1e9
"""Numbers from here on are points in time, in seconds since 1970, or in milliseconds if they are a thousand times this;
smaller ones are seconds from now."""
RETRY_INFO = "google.rpc.RetryInfo"


def reset_after(headers: Mapping[str, str] | None, body: object) -> float | None:
    """Return the seconds until every limit that is used up is full again; `None` where the provider says nothing."""
    found = [*_of_headers(headers or {}), *_of_body(body)]
    return max(found, default=None)


def _of_headers(headers: Mapping[str, str]) -> Iterator[float]:
    for name, value in headers.items():
        if (matched := RESET.fullmatch(name)) is None:
            continue
        left = headers.get(f"{matched['family']}{matched['infix']}-remaining{matched['limit'] or ''}")
        if (left is None or left.strip() in ("0", "0.0")) and (seconds := seconds_of_reset(value)) is not None:
            yield seconds


def _of_body(body: object) -> Iterator[float]:
    if isinstance(body, Mapping):
        inner = cast("Mapping[str, object]", body)
        yield from _of_body(inner.get("error"))
        details = inner.get("details")
        for detail in cast("list[object]", details) if isinstance(details, list) else ():
            one = cast("Mapping[str, object]", detail if isinstance(detail, Mapping) else {})
            delay = str(one.get("retryDelay", "")) if str(one.get("@type", "")).endswith(RETRY_INFO) else ""
            if (seconds := seconds_of_reset(delay)) is not None:
                yield seconds
    elif isinstance(body, list) and body:
        yield from _of_body(cast("list[object]", body)[0])


def seconds_of_reset(text: str) -> float | None:
    """Return the seconds from now that a text names: `6m0s`, a number, or an instant as a number or in ISO 8601."""
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        return _of_duration(text)
    if number >= LEAST_INSTANT * 1000:
        number /= 1000
    seconds = number - time.time() if number >= LEAST_INSTANT else number
    return max(0.0, seconds) if seconds == seconds else None  # noqa: PLR0124 - not a number


def _of_duration(text: str) -> float | None:
    parts = PART.findall(text)
    if parts and "".join(amount + unit for amount, unit in parts) == text:
        return sum(float(amount) * UNITS[unit] for amount, unit in parts)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    instant = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return max(0.0, instant.timestamp() - time.time())


LIMITS = (ModelRateLimitError, ModelQuotaExceededError)
"""What providers raise whose limits are used up; they may name in headers or the body when they take calls again."""
UNREADABLE = "answered in a way that can't be read"
LONGEST_REASON = 300
LONGEST_WAIT = 366 * 86_400.0
CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error"}

# The first match counts, so subclasses come before their base classes.
CLASSES: tuple[tuple[type[AgentRunError], type[AgentError], str], ...] = (
    (ModelRateLimitError, RateLimited, "asks for fewer requests"),
    (ModelQuotaExceededError, InvalidRequest, "has no quota left; check the account"),
    (ModelContextWindowExceededError, ContextTooLong, "can't take a prompt that long"),
    (ModelRequestRejectedError, InvalidRequest, "refused the request"),
    (ModelRequestTimeout, AgentTimeout, "took too long"),
    (ModelTimeoutError, AgentTimeout, "took too long"),
    (ModelConnectionError, ServiceError, "can't be reached"),
    (ModelUnavailableError, ServiceError, "is not available"),
    (ModelServerError, ServiceError, "failed on its side"),
    (ContentFilterError, Refused, "refused to answer"),
    (UnexpectedModelBehavior, InvalidOutput, "gave no usable answer"),
)


def classify(error: Exception, model: str) -> AgentError:
    """Return our error for an exception of a model call.

    Errors of the transport take precedence, since libraries wrap them in different ways. A reply that broke off or
    can't be read has an unknown cost.
    """
    if isinstance(error, ExceptionGroup):  # of a model that tried several others: what the last one said
        return classify(cast("ExceptionGroup[Exception]", error).exceptions[-1], model)
    for cause in _causes(error):
        match cause:
            case ReplyBroken():
                return ServiceError(f"The model {model!r} gave no whole reply: {cause}", unknown_cost=True)
            case CertificatesUnreadable():
                return InvalidRequest(f"The model {model!r} can't be reached: {cause}")
            case ReplyRefused():
                return InvalidOutput(f"The model {model!r} gave a reply that is not read: {cause}")
            case ReplySilent():
                silent = f"The model {model!r} took too long: {cause}"
                return AgentTimeout(f"{silent}; a  timeout  above 600 seconds lets it wait a tenth of it")
            case HeaderInvalid() | UnicodeEncodeError(encoding="ascii"):  # headers alone are encoded so
                return InvalidInput(
                    f"The request to the model {model!r} can't be sent: a header contains characters that HTTP does not"
                    " allow, such as a line break; check the API key and  extra_headers"
                )
            case _:
                pass
    if not isinstance(error, AgentRunError):
        return InvalidOutput(f"The model {model!r} {UNREADABLE}: {_raised(error)}")
    kind, what = _kind(error)
    status = f", HTTP {error.status_code}" if isinstance(error, ModelHTTPError) else ""
    wait = error.retry_after if isinstance(error, ModelAPIError) else None
    if wait is None and isinstance(error, LIMITS):
        wait = reset_after(error.headers if isinstance(error, ModelHTTPError) else None, error.body)
    begun = isinstance(error, ModelAPIError) and (error.in_stream or what == UNREADABLE)
    text = f"The model {model!r} {what}{status}: {_reason(error)}"
    return kind(text, retry_after=_finite(wait), unknown_cost=begun)


def _raised(error: Exception) -> str:
    """Name an exception of a client, with its message in one line; the engine masks secrets in it."""
    message = " ".join(str(error).split())
    if isinstance(error, ValidationError):  # the places are enough: its message is worded for programmers
        message = _invalid_places(error)
    return cut(f"{type(error).__name__}: {message}" if message else type(error).__name__, LONGEST_REASON)


def is_too_long(error: AgentRunError) -> bool:
    """Whether a provider refused a request because its prompt is too long."""
    return _kind(error)[0] is ContextTooLong


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
        if isinstance(cause, BaseExceptionGroup):  # one error for each address of a host
            cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[-1]


def _finite(seconds: float | None) -> float | None:
    """Return the wait that a server requests, or `None` if it is negative, infinite or absurdly long."""
    return seconds if seconds is not None and 0 <= seconds < LONGEST_WAIT else None


def _kind(error: AgentRunError) -> tuple[type[AgentError], str]:
    if isinstance(error, ModelAPIError) and CONTEXT_CODES & {error.provider_error_code, error.provider_error_type}:
        return ContextTooLong, "can't take a prompt that long"
    for found, kind, what in CLASSES:
        if isinstance(error, found):
            return kind, what
    if isinstance(error, ModelHTTPError):  # of a model that does not raise the classes above
        match error.status_code:
            case HTTPStatus.REQUEST_TIMEOUT:
                return AgentTimeout, "took too long"
            case HTTPStatus.TOO_MANY_REQUESTS:
                return RateLimited, "asks for fewer requests"
            case status if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return ServiceError, "failed on its side"
            case _:
                return InvalidRequest, "refused the request"
    return ServiceError, UNREADABLE


def _reason(error: AgentRunError) -> str:
    """Return the provider's error message without the rest of its response, or the model's mistake."""
    if isinstance(error, UnexpectedModelBehavior):
        return cut(_misbehaviour(error), LONGEST_REASON)
    body: object = error.body if isinstance(error, ModelAPIError) else None
    for key in ("error", "message"):
        if isinstance(body, Mapping) and key in body:
            body = cast("Mapping[str, object]", body)[key]
    if isinstance(body, str) and body.strip():
        return cut(body, LONGEST_REASON)
    return cut(_system_reason(error) or error.message, LONGEST_REASON)


def _system_reason(error: AgentRunError) -> str | None:
    """Return what the system says about a connection that failed; client libraries say only that it failed."""
    if not isinstance(error, ModelConnectionError):
        return None
    for cause in _causes(error):
        match cause:
            case ssl.SSLError():
                return str(cause)
            case socket.gaierror():
                return "its host is not found"
            case OSError(errno=int() as number) if number in errno.errorcode:
                return os.strerror(number)
            case _:
                pass
    return None


def _invalid_places(error: ValidationError) -> str:
    return ", ".join(dict.fromkeys(".".join(map(str, one["loc"])) for one in error.errors(include_url=False)))


def _misbehaviour(error: UnexpectedModelBehavior) -> str:
    """Why a turn failed, with the last correction that the model did not follow."""
    match error.__cause__:
        case None:
            return error.message.partition(". ")[0]
        case ValidationError() as invalid:
            return f"its response is malformed: {_invalid_places(invalid)}"
        case ModelRetry(message=correction):
            return f"it did not correct its mistake: {correction}"
        case ToolRetryError() as retry if isinstance(retry.tool_retry.content, str):
            return f"it did not correct its mistake: {retry.tool_retry.content}"
        case _:
            return "it did not correct its mistake"
