"""When a failed call is tried again, how often and after how long: the policy of an agent, its defaults, and the rule.

A team sets the policy for its members, and what follows once the retries are used up. A retry is decided by the kind of
an error, never by its text. Records keep the kind, so a replay decides the same. A status of HTTP or an exception of a
client becomes a kind in `agents/model/error_kinds.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from teamwright.errors import (
    AgentError,
    AgentTimeout,
    ContextTooLong,
    InvalidInput,
    InvalidOutput,
    InvalidRequest,
    NotDone,
    RateLimited,
    Refused,
    ScriptMismatch,
    ServiceError,
    ToolError,
)
from teamwright.values.call_limits import Duration
from teamwright.values.value import Value


class RetryWaits(Value):
    """The shortest and the longest wait before a retry."""

    min: float = Field(default=2.0, ge=0, allow_inf_nan=False, description="seconds before the second attempt")
    max: float = Field(
        default=60.0,
        ge=0,
        allow_inf_nan=False,
        description="the longest wait in seconds, whatever the provider asks for",
    )


class RetryPolicy(Value):
    """How many times, and with which backoff, a failed call is retried."""

    times: int = Field(default=3, ge=0, le=20, description="retries after the first attempt")
    backoff: Annotated[float, Field(ge=0, allow_inf_nan=False)] | RetryWaits = Field(
        default=2.0, description="seconds before the second attempt, doubled each time; or {min, max}"
    )
    outlast: Duration = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="how long the run may pause for a provider that says when it takes calls again, such as `6h`",
    )

    @property
    def waits(self) -> RetryWaits:
        """The shortest and the longest wait."""
        return self.backoff if isinstance(self.backoff, RetryWaits) else RetryWaits(min=self.backoff)


DEFAULT_RETRY = RetryPolicy.model_construct()
"""The policy of an agent that sets none; its team may set another for its members."""

TooLong = Literal["summarise", "fallback", "fail"]


class Recovery(Value):
    """How a team recovers from failures of members that have no such settings themselves."""

    retry: RetryPolicy | None = Field(default=None, description="for calls of members without a `retry` of their own")
    fallback: str | None = Field(
        default=None,
        description="an agent or team that is asked when a member without a `fallback` of its own fails",
        json_schema_extra={"names": "agent"},
    )
    too_long: TooLong | None = Field(
        default=None,
        description="what to do when the conversation no longer fits a member's model: summarise by default, fallback"
        " or fail",
    )

    def within(self, outer: Recovery | None) -> Recovery:
        """Return what holds in a nested team: its own settings, else those of the outer one."""
        if outer is None:
            return self
        own = {name: value for name, value in self if name in Recovery.model_fields and value is not None}
        return outer.model_copy(update=own)


ERRORS: dict[str, type[AgentError]] = {
    error.kind: error
    for error in (
        AgentError,
        RateLimited,
        ContextTooLong,
        AgentTimeout,
        ServiceError,
        Refused,
        InvalidRequest,
        InvalidInput,
        InvalidOutput,
        ScriptMismatch,
        ToolError,
        NotDone,
    )
}
"""Error classes by the kind that records and scripts use."""
RETRYABLE = frozenset(kind for kind, error in ERRORS.items() if error.retryable)
"""The kinds of errors that the retry policy of an agent retries, so that a failure of such a kind has used it up."""
FUTILE = frozenset((InvalidRequest.kind, InvalidInput.kind))
"""The kinds of errors that the same member meets again: its settings or its input are wrong. No strategy tries it again
or hides the mistake behind a cheaper model."""

SHORTEST_PAUSE = 1.0
"""The shortest time in seconds for which a run pauses for a provider."""
JITTER = 0.1
"""The random share that is added to a wait, so that calls which failed together are not repeated together."""


def wait_before_retry(policy: RetryPolicy | None, failures: int, error: AgentError, chance: float) -> float | None:
    """Return the backoff in seconds after this many failures, or `None` to give up.

    The backoff doubles each time; a wait that the provider requests is honoured up to the longest allowed.
    """
    if policy is None or not error.retryable or failures > policy.times:
        return None
    wait = policy.waits.min * 2 ** (failures - 1)
    wait += wait * JITTER * chance
    return min(policy.waits.max, max(wait, error.retry_after or 0.0))


def wait_to_outlast(
    policy: RetryPolicy | None, failures: int, outlasted: float, error: AgentError, chance: float
) -> float | None:
    """Return for how long to leave a provider alone that takes no calls now; `None` if no such wait is due.

    It is due where the provider names a time beyond the longest wait of the policy, or goes on to limit calls without a
    time once their retries are used up: then each wait is as long as all before it. All waits of a call together, of
    which `outlasted` seconds have passed, may take as long as the policy allows.
    """
    if policy is None or not policy.outlast:
        return None
    left = policy.outlast - outlasted
    if (asked := error.retry_after or 0.0) > policy.waits.max:
        asked += policy.waits.min * JITTER * chance
        return asked if asked <= left else None
    if not isinstance(error, RateLimited) or failures <= policy.times or left <= 0:
        return None
    return min(left, max(policy.waits.max, policy.waits.min, outlasted, SHORTEST_PAUSE))


def recorded_error(kind: str, message: str) -> AgentError:
    """Rebuild a recorded error.

    A kind that has no class of its own, such as `crash`, becomes an `AgentError` of that kind.
    """
    error = ERRORS.get(kind, AgentError)(message)
    error.kind = kind
    return error
