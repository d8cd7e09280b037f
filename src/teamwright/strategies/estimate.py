"""Estimates of the asks that a strategy will make. Budget forecasts rely on them."""

from __future__ import annotations

from teamwright.strategies.protocol import ExpectedAsks

NO_ESTIMATE: ExpectedAsks = {}
MOST_ESTIMATED = 100_000
"""Above this number of asks there is no estimate: a bound that high says nothing about the work."""


def turn_estimate(turns: int | None) -> ExpectedAsks:
    """Return the estimate for members that take numbered turns: one ask for each possible turn."""
    if (turns or 0) > MOST_ESTIMATED:
        return NO_ESTIMATE
    return {f"turn-{number}": 0 for number in range(1, (turns or 0) + 1)}
