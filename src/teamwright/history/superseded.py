"""Which asks a fork has asked anew, told from the asks alone, so that every reader of a run counts the same.

A fork asks anew, as a further attempt, what it tells somebody else or in other words than the run that it comes from.
On any run a further attempt may also follow a failure (a fallback, a shorter context, another try), which then stands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from teamwright.values.events.agent import AgentFailed
from teamwright.values.key import parent_keys, split_attempt, with_attempt

if TYPE_CHECKING:
    from teamwright.history.past import RecordedAsk

Recovered = tuple[str, str, str]
"""The scope in which an ask failed, its error, and who was asked after that."""


def asked_anew(asks: Mapping[str, RecordedAsk], recovered: Collection[Recovered], taken_over: int) -> frozenset[str]:
    """The keys of the asks that gave way to a further attempt; only what a fork took over can, up to that number."""
    gone: set[str] = set()
    for key, ask in asks.items():
        first, this = split_attempt(key)
        last = this - 1
        for attempt in range(last, 0, -1):
            place = with_attempt(first, attempt)
            before = asks[place]
            # What follows a failure comes right after it, or after a fallback that gave way to another one.
            near = attempt == last or before.asked.digest == ask.asked.digest
            if before.number > taken_over or (near and _follows(before, ask, first, recovered)):
                break
            gone.add(place)
    return frozenset(gone)


def _follows(before: RecordedAsk, ask: RecordedAsk, key: str, recovered: Collection[Recovered]) -> bool:
    """Whether an attempt was made because the one before had failed."""
    if not isinstance(before.ending, AgentFailed):
        return False
    if (before.asked.member, before.asked.digest) == (ask.asked.member, ask.asked.digest):
        return True
    return any((scope, before.ending.error, ask.asked.member) in recovered for scope in parent_keys(key))
