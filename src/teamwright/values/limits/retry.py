"""Retry and recovery policies: what happens after a call or a member fails."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from teamwright.values.models import Value


class RetryPolicy(Value):
    """How many times, and with which backoff, a failed call is retried."""

    attempts: int = Field(default=3, ge=0, le=20, description="retries after the first attempt")
    backoff: float = Field(default=2.0, ge=0, description="seconds before the second attempt, doubled each time")
    longest: float = Field(
        default=60.0, ge=0, description="the longest wait in seconds, whatever the provider asks for"
    )
    jitter: float = Field(default=0.1, ge=0, le=1, description="random share of the wait")


DEFAULT_RETRY = RetryPolicy.model_construct()
"""The policy of an agent that sets none; its team may set another for its members."""

TooLong = Literal["summarise", "fallback", "fail"]


class Recovery(Value):
    """How a team recovers from failures of members that have no such settings themselves."""

    retry: RetryPolicy | None = Field(default=None, description="for calls of members without their own `retry`")
    fallback: str | None = Field(
        default=None,
        description="an agent or team that is asked when a member fails",
        json_schema_extra={"names": "agent"},
    )
    too_long: TooLong = Field(
        default="summarise", description="what to do when the conversation no longer fits a member's model"
    )
