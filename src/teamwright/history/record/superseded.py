"""Finds the recorded asks that a fork has superseded. It reads the asks alone, so that every reader counts the same.

A fork makes an ask again, as a further attempt, when its member or its turn differs from the inherited record. On any
run a further attempt may also follow a failure (a fallback, a shorter context, a retry); that failure still counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from teamwright.history.record.asks import RecordedAsk
from teamwright.values.events.agent import AgentFailed
from teamwright.values.key import parent_keys, split_attempt, with_attempt

Recovered = tuple[str, str, str]
"""The scope in which an ask failed, its error, and the member that was asked next."""


def superseded_asks(
    asks: Mapping[str, RecordedAsk], recovered: Collection[Recovered], inherited: int
) -> frozenset[str]:
    """Return the keys of the asks that a further attempt supersedes; only asks up to event `inherited` can be."""
    superseded: set[str] = set()
    for key, ask in asks.items():
        first, this = split_attempt(key)
        last = this - 1
        for attempt in range(last, 0, -1):
            place = with_attempt(first, attempt)
            before = asks[place]
            # A recovery attempt comes right after the failure, or after another fallback that failed.
            near = attempt == last or before.asked.digest == ask.asked.digest
            if before.number > inherited or (near and _follows(before, ask, first, recovered)):
                break
            superseded.add(place)
    return frozenset(superseded)


def _follows(before: RecordedAsk, ask: RecordedAsk, key: str, recovered: Collection[Recovered]) -> bool:
    """Whether an attempt was made because the previous one had failed."""
    if not isinstance(before.ending, AgentFailed):
        return False
    if (before.asked.member, before.asked.digest) == (ask.asked.member, ask.asked.digest):
        return True
    return any((scope, before.ending.error, ask.asked.member) in recovered for scope in parent_keys(key))
