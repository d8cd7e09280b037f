"""What a run, team or member may spend, how fast a model may be called, and what is done about failures."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from teamwright.values.frozen import Value


class Limits(Value):
    """Upper bounds; `None` is no bound of its own (those around it still hold)."""

    tokens: int | None = Field(default=None, ge=0, description="input and output tokens")
    calls: int | None = Field(default=None, ge=0, description="model requests, tool calls and function calls")
    seconds: float | None = Field(default=None, gt=0, description="time with a driver, not waiting for a person")


class Pace(Value):
    """How fast an engine may call one model, all its runs together."""

    requests_per_minute: int | None = Field(default=None, ge=1, description="requests that leave in any sixty seconds")
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="input and output tokens of requests that leave in any sixty seconds"
    )
    concurrency: int | None = Field(default=None, ge=1, description="requests that are out at once; 32 unless said")

    def tightened(self, other: Pace) -> Pace:
        """The tighter of both bounds, each by itself."""
        return Pace(
            requests_per_minute=_tighter(self.requests_per_minute, other.requests_per_minute),
            tokens_per_minute=_tighter(self.tokens_per_minute, other.tokens_per_minute),
            concurrency=_tighter(self.concurrency, other.concurrency),
        )


def _tighter(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class RetryPolicy(Value):
    """How often and how patiently a failed call is made again."""

    attempts: int = Field(default=3, ge=0, le=20, description="further attempts after the first")
    backoff: float = Field(default=2.0, ge=0, description="seconds before the second attempt, doubled each time")
    longest: float = Field(default=60.0, ge=0, description="no wait is longer, whatever the provider asks")
    jitter: float = Field(default=0.1, ge=0, le=1, description="share of the wait that is random")


USUAL = RetryPolicy()
"""What an agent that says nothing retries; a team may set something else for its members."""

TooLong = Literal["summarise", "fallback", "fail"]


class Recovery(Value):
    """How a team meets failures of members that say nothing about it themselves."""

    retry: RetryPolicy | None = Field(
        default=None, description="for calls of members that have no `retry` of their own"
    )
    fallback: str | None = Field(
        default=None, description="an agent or team that is asked instead", json_schema_extra={"names": "agent"}
    )
    too_long: TooLong = Field(
        default="summarise", description="what to do when the conversation no longer fits a member's model"
    )
