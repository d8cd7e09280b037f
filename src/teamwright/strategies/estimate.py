"""What a strategy can say beforehand about the work that it will ask for. Forecasts of what a run costs rest on it."""

from __future__ import annotations

from teamwright.strategies.protocol import Outlook, Settings

NOTHING_KNOWN: Outlook = {}
MOST_KNOWN = 100_000
"""A strategy that may ask for more can't tell: a bound that high says nothing about the work."""


def in_turns(settings: Settings) -> Outlook:
    """What is to come where members take numbered turns: as many as there may be."""
    if (settings.max_turns or 0) > MOST_KNOWN:
        return NOTHING_KNOWN
    return {f"turn-{number}": 0 for number in range(1, (settings.max_turns or 0) + 1)}
