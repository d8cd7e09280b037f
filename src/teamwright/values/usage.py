"""What work has cost."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field, computed_field

from teamwright.values.frozen import Value


class Usage(Value):
    """Tokens, requests and money; adds up."""

    requests: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    reasoning_tokens: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)
    usd: float | None = Field(default=None, ge=0)

    @computed_field
    @cached_property
    def total_tokens(self) -> int:
        """Input and output; cached and reasoning tokens are parts of these."""
        return self.input_tokens + self.output_tokens

    def __eq__(self, other: object) -> bool:
        """Every record compares its usage with the default, and the model's own comparison takes five times longer."""
        return self is other or (
            type(other) is Usage
            and self.input_tokens == other.input_tokens
            and self.output_tokens == other.output_tokens
            and self.requests == other.requests
            and self.cached_tokens == other.cached_tokens
            and self.reasoning_tokens == other.reasoning_tokens
            and self.tool_calls == other.tool_calls
            and self.usd == other.usd
        )

    def __hash__(self) -> int:
        return hash((self.input_tokens, self.output_tokens, self.requests))

    def __add__(self, other: Usage) -> Usage:
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            tool_calls=self.tool_calls + other.tool_calls,
            usd=other.usd if self.usd is None else self.usd if other.usd is None else self.usd + other.usd,
        )


NOTHING = Usage()
