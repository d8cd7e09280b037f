"""Limits: what a run, team, member, step or message may spend, and how fast a model may be called."""

from __future__ import annotations

from typing import TypeVar

from pydantic import Field

from teamwright.values.limits.usage import Amounts, Bounds
from teamwright.values.models import Value

N = TypeVar("N", int, float)


class MessageLimits(Value):
    """Upper bounds of every single model request."""

    tokens: int | None = Field(default=None, ge=1, description="tokens of the prompt and the answer")
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="cost in US dollars")
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="duration in seconds")

    def tightened(self, other: MessageLimits) -> MessageLimits:
        """Return the tighter of each pair of limits."""
        return MessageLimits(
            tokens=tighter(self.tokens, other.tokens),
            usd=tighter(self.usd, other.usd),
            seconds=tighter(self.seconds, other.seconds),
        )


class Limits(Value):
    """Upper bounds; `None` sets no bound here, and the bounds of enclosing scopes still apply."""

    tokens: int | None = Field(default=None, ge=0, description="input and output tokens")
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="money, in US dollars")
    calls: int | None = Field(default=None, ge=0, description="model requests, tool calls and function calls")
    seconds: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="seconds with a driver, without waits for people"
    )
    message: MessageLimits | None = Field(default=None, description="bounds of every single model request")
    strict: bool = Field(default=False, description="reserve a token for each byte of a prompt, which none exceeds")

    @property
    def bounds_spend(self) -> bool:
        """Whether an account is needed: any bound besides time is set, or how calls inside are reserved."""
        return self.strict or any(bound is not None for bound in (self.tokens, self.usd, self.calls, self.message))

    @property
    def bounds(self) -> Bounds:
        """The limits in their recorded form."""
        one = self.message
        message = Amounts(tokens=one.tokens, usd=one.usd, seconds=one.seconds) if one else None
        return Bounds(
            tokens=self.tokens,
            usd=self.usd,
            calls=self.calls,
            seconds=self.seconds,
            message=message,
            strict=self.strict or None,
        )

    @classmethod
    def from_bounds(cls, bounds: Bounds) -> Limits:
        """Return the limits from their recorded form."""
        one = bounds.message
        message = {"tokens": one.tokens, "usd": one.usd, "seconds": one.seconds} if one else None
        return cls.model_validate({**bounds.given, "message": message})


class Pace(Value):
    """The rate limits of one model, for all runs of an engine together."""

    requests_per_minute: int | None = Field(default=None, ge=1, description="requests that start in any sixty seconds")
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="input and output tokens of requests that start in any sixty seconds"
    )
    concurrency: int | None = Field(default=None, ge=1, description="requests in flight at once; 32 by default")

    def tightened(self, other: Pace) -> Pace:
        """Return the tighter of each pair of limits."""
        return Pace(
            requests_per_minute=tighter(self.requests_per_minute, other.requests_per_minute),
            tokens_per_minute=tighter(self.tokens_per_minute, other.tokens_per_minute),
            concurrency=tighter(self.concurrency, other.concurrency),
        )


def tighter(one: N | None, other: N | None) -> N | None:
    """Return the smaller of two bounds; `None` is no bound."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
