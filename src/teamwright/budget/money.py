"""Money as whole numbers, so that sums are exact and a limit means what it says.

Prices go down to fractions of a millionth of a dollar per token; a picodollar is small enough for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

PICODOLLARS = 10**12
"""Picodollars in one dollar."""
LARGEST = 1e18
"""The largest amount in dollars, of either sign; larger ones are clamped to it, so that nothing overflows."""


def picodollars(usd: float | None) -> int:
    """Convert dollars to picodollars; an unknown amount is 0."""
    return round(max(-LARGEST, min(usd, LARGEST)) * PICODOLLARS) if usd else 0


def dollars(amount: int) -> float:
    """Convert picodollars to dollars."""
    return amount / PICODOLLARS


class Rate(NamedTuple):
    """The highest price of one input token and of one output token, in picodollars."""

    input: int
    output: int

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Return the most that these tokens can cost, in picodollars."""
        return self.input * input_tokens + self.output * output_tokens
