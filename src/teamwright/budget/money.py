"""Money as whole numbers, so that sums are exact and a limit means what it says.

Prices go down to fractions of a millionth of a dollar for a token; a picodollar holds all that any provider asks.
"""

from __future__ import annotations

from typing import NamedTuple

PICODOLLARS = 10**12
"""How many make a dollar."""
LARGEST = 1e18
"""Dollars, of either sign; more than that counts as that, so that no amount overflows."""


def picodollars(usd: float | None) -> int:
    """An amount of dollars as a whole number; nothing where none is known."""
    return round(max(-LARGEST, min(usd, LARGEST)) * PICODOLLARS) if usd else 0


def dollars(amount: int) -> float:
    """The amount as people write it."""
    return amount / PICODOLLARS


class Rate(NamedTuple):
    """The most that a token of input and one of output can cost, in picodollars."""

    input: int
    output: int

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """What so many tokens cost at most."""
        return self.input * input_tokens + self.output * output_tokens
