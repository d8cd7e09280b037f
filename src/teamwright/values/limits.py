"""What a run, team, member, step or message may spend, what models cost and how fast they may be called, and what is
done about failures.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import Field

from teamwright.values.models import Value
from teamwright.values.usage import Amounts, Bounds, Usage

N = TypeVar("N", int, float)


class MessageLimits(Value):
    """Upper bounds of each single model request."""

    tokens: int | None = Field(default=None, ge=1, description="tokens of its prompt and its answer")
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="what it may cost, in US dollars")
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="how long it may take")

    def tightened(self, other: MessageLimits) -> MessageLimits:
        """The tighter of both bounds, each by itself."""
        return MessageLimits(
            tokens=tighter(self.tokens, other.tokens),
            usd=tighter(self.usd, other.usd),
            seconds=tighter(self.seconds, other.seconds),
        )


class Limits(Value):
    """Upper bounds; `None` is no bound of its own (those around it still hold)."""

    tokens: int | None = Field(default=None, ge=0, description="input and output tokens")
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="money, in US dollars")
    calls: int | None = Field(default=None, ge=0, description="model requests, tool calls and function calls")
    seconds: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="time with a driver, not waiting for a person"
    )
    message: MessageLimits | None = Field(default=None, description="bounds of each single model request")

    @property
    def counted(self) -> bool:
        """Whether there is anything to hold besides time."""
        return any(bound is not None for bound in (self.tokens, self.usd, self.calls, self.message))

    @property
    def bounds(self) -> Bounds:
        """The same as it stands in a record."""
        one = self.message
        message = Amounts(tokens=one.tokens, usd=one.usd, seconds=one.seconds) if one else None
        return Bounds(tokens=self.tokens, usd=self.usd, calls=self.calls, seconds=self.seconds, message=message)

    @classmethod
    def of(cls, bounds: Bounds) -> Limits:
        """What a record says."""
        one = bounds.message
        message = {"tokens": one.tokens, "usd": one.usd, "seconds": one.seconds} if one else None
        return cls.model_validate({**bounds.given, "message": message})


class Price(Value):
    """What a model costs, in US dollars for a million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False, description="a million tokens of input")
    output: float = Field(ge=0, allow_inf_nan=False, description="a million tokens of output")
    cached: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="a million tokens of input that were cached; else as input"
    )

    def cost(self, usage: Usage) -> float:
        """What this much use costs."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        price_of_cached = self.input if self.cached is None else self.cached
        return round((fresh * self.input + cached * price_of_cached + usage.output_tokens * self.output) / 1e6, 12)


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
            requests_per_minute=tighter(self.requests_per_minute, other.requests_per_minute),
            tokens_per_minute=tighter(self.tokens_per_minute, other.tokens_per_minute),
            concurrency=tighter(self.concurrency, other.concurrency),
        )


def tighter(one: N | None, other: N | None) -> N | None:
    """The smaller of two bounds, where there are two."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class RetryPolicy(Value):
    """How often and how patiently a failed call is made again."""

    attempts: int = Field(default=3, ge=0, le=20, description="further attempts after the first")
    backoff: float = Field(default=2.0, ge=0, description="seconds before the second attempt, doubled each time")
    longest: float = Field(default=60.0, ge=0, description="no wait is longer, whatever the provider asks")
    jitter: float = Field(default=0.1, ge=0, le=1, description="share of the wait that is random")


USUAL = RetryPolicy.model_construct()
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
