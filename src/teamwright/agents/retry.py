"""Whether a failed call is made again, and when. Decided by the type of the error, never by its text."""

from __future__ import annotations

from teamwright.errors import (
    AgentError,
    AgentTimeout,
    ContextTooLong,
    InvalidInput,
    InvalidOutput,
    RateLimited,
    Refused,
    ScriptMismatch,
    ServiceError,
    ToolError,
)
from teamwright.values.limits.retry import RetryPolicy

ERRORS: dict[str, type[AgentError]] = {
    error.kind: error
    for error in (
        AgentError, RateLimited, ContextTooLong, AgentTimeout, ServiceError, Refused, InvalidInput, InvalidOutput,
        ScriptMismatch, ToolError,
    )
}  # fmt: skip
"""Each error by the word that records and scripts use for it."""


def wait_before_retry(policy: RetryPolicy | None, failures: int, error: AgentError, chance: float) -> float | None:
    """Seconds to wait after the given number of failures, or `None` to give up.

    Doubles each time; a wait that the provider asked for is honoured up to the longest one allowed.
    """
    if policy is None or not error.retryable or failures > policy.attempts:
        return None
    wait = policy.backoff * 2 ** (failures - 1)
    wait += wait * policy.jitter * chance
    return min(policy.longest, max(wait, error.retry_after or 0.0))


def recorded_error(kind: str, message: str) -> AgentError:
    """The error that a record tells of."""
    error = ERRORS.get(kind, AgentError)(message)
    error.kind = kind
    return error
