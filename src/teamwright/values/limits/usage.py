"""Recorded amounts: the usage of calls, and the limits and remainders of budgets."""

from __future__ import annotations

from typing import cast

from typing_extensions import override

from teamwright.values.models import JsonValue, Record

CHARACTERS_PER_TOKEN = 4
"""Characters per token in an estimate: about right for English text."""
MOST_TOKENS = 10**9
MOST_USD = 10.0**6
"""The most that one call may report: more is not plausible, and its sums would overflow a record."""
MOST_IN_ALL = 2**63 - 1


class Usage(Record, frozen=True):
    """Requests, tokens, tool calls and money; usages can be added.

    `saved_usd` is what prompt caching saved: the price of the same tokens without a cache, less `usd`. It is negative
    where more was written to a cache than was read from it.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    tool_calls: int = 0
    usd: float | None = None
    saved_usd: float | None = None

    def __post_init__(self) -> None:
        usd = self.usd or 0.0
        counts = (
            self.requests, self.input_tokens, self.output_tokens, self.cached_tokens, self.reasoning_tokens,
            self.tool_calls, usd,
        )  # fmt: skip
        if min(counts) < 0:
            raise ValueError(f"a usage can't be negative: {self!r}")
        saved = self.saved_usd or 0.0
        if max(counts) > MOST_IN_ALL or usd != usd or not abs(saved) <= MOST_IN_ALL:  # noqa: PLR0124 - a NaN is neither
            raise ValueError(f"a usage can't be this large: {self!r}")

    @property
    def is_plausible(self) -> bool:
        """Whether a single call can have used this much."""
        usd = self.usd or 0.0
        most = max(self.requests, self.input_tokens, self.output_tokens, self.tool_calls)
        return most <= MOST_TOKENS and usd <= MOST_USD

    @property
    def total_tokens(self) -> int:
        """Input and output tokens, which include cached and reasoning tokens."""
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
            usd=add_usd(self.usd, other.usd),
            saved_usd=add_usd(self.saved_usd, other.saved_usd),
        )


NOTHING = Usage()


def add_usd(one: float | None, other: float | None) -> float | None:
    """Add two amounts of money, rounded to the picodollar so that float sums don't drift; None is unknown."""
    if one is None or other is None:
        return other if one is None else one
    return round(one + other, 12)


class Amounts(Record, frozen=True):
    """Tokens, US dollars, calls and seconds; `None` where there is no bound."""

    tokens: int | None = None
    usd: float | None = None
    calls: int | None = None
    seconds: float | None = None


class Bounds(Amounts, frozen=True):
    """Limits in their recorded form; `message` bounds every single model request, `strict` reserves by bytes."""

    message: Amounts | None = None
    strict: bool | None = None

    @property
    def given(self) -> dict[str, int | float | Amounts]:
        """The bounds that are set, by name."""
        found = {name: cast("int | float | Amounts | None", getattr(self, name)) for name in self.__struct_fields__}
        return {name: bound for name, bound in found.items() if bound is not None}
