"""What a strategy can say beforehand about the work that it will ask for. Forecasts of what a run costs rest on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from teamwright.strategies.protocol import Members, Settings, Strategy

Outlook = Mapping[str, int]
"""The asks to come, by their keys or the first part of them, with the tokens that each is expected to take, or 0."""

NOTHING_KNOWN: Outlook = {}
MOST_KNOWN = 100_000
"""A strategy that may ask for more can't tell: a bound that high says nothing about the work."""


def outlook_of(strategy: Strategy, settings: Settings, members: Members) -> Outlook:
    """What is to come in a team; empty where its strategy can't tell."""
    outlook: Callable[[Settings, Members], Outlook] | None = getattr(strategy, "outlook", None)
    return outlook(settings, members) if outlook else NOTHING_KNOWN


def in_turns(settings: Settings) -> Outlook:
    """What is to come where members take numbered turns: as many as there may be."""
    if (settings.max_turns or 0) > MOST_KNOWN:
        return NOTHING_KNOWN
    return {f"turn-{number}": 0 for number in range(1, (settings.max_turns or 0) + 1)}
