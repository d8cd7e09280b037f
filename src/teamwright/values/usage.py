"""What work has cost."""

from __future__ import annotations

from typing_extensions import override

from teamwright.values.frozen import JsonValue, Record


class Usage(Record, frozen=True):
    """Tokens, requests and money; adds up."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    tool_calls: int = 0
    usd: float | None = None

    def __post_init__(self) -> None:
        counts = (
            self.requests, self.input_tokens, self.output_tokens, self.cached_tokens, self.reasoning_tokens,
            self.tool_calls, self.usd or 0.0,
        )  # fmt: skip
        if min(counts) < 0:
            raise ValueError(f"what was used can't be negative: {self!r}")

    @property
    def total_tokens(self) -> int:
        """Input and output; cached and reasoning tokens are parts of these."""
        return self.input_tokens + self.output_tokens

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data, with the total."""
        return super().to_json() | {"total_tokens": self.total_tokens}

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
