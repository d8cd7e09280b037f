"""Grants exclusive keys to steps: all keys of a claim at once, by priority, without starvation. Pure.

A claim is granted when none of its keys overlaps a held key or a key that an earlier claim waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from teamwright.values.owned_paths import Overlaps

Rank = tuple[int, int]
"""The sort key of claims: higher priority first, then the lower number."""


@dataclass(slots=True, eq=False)
class Claim:
    """A request for keys: waiting for them, holding them, or ended."""

    name: str
    keys: tuple[str, ...]
    rank: Rank
    state: Literal["waiting", "held", "ended"] = "waiting"
    held_up: bool = False


class LockTable:
    """The table of all claims that may conflict."""

    def __init__(self) -> None:
        self._overlaps = Overlaps()
        self._holders: dict[str, Claim] = {}
        self._conflicts: dict[str, int] = {}
        self._queues: dict[str, list[tuple[Rank, Claim]]] = {}
        self._candidates: list[tuple[Rank, Claim]] = []
        self._added = 0
        self.held_up: list[Claim] = []

    def add(self, name: str, keys: Iterable[str] = (), priority: int = 0, number: int | None = None) -> Claim:
        """Add a waiting claim; `number` breaks ties of priority, by default in the order of adding."""
        self._added += 1
        claim = Claim(
            name, tuple(dict.fromkeys(keys)) if keys else (), (-priority, self._added if number is None else number)
        )
        for key in claim.keys:
            if key not in self._conflicts:
                self._add_key(key)
            heappush(self._queues[key], (claim.rank, claim))
        heappush(self._candidates, (claim.rank, claim))
        return claim

    def hold(self, name: str, keys: Iterable[str], priority: int, number: int) -> Claim:
        """Add a claim that has its keys already."""
        claim = self.add(name, keys, priority, number)
        self._hold(claim)
        return claim

    def grant_next(self) -> Claim | None:
        """Grant the first claim that can have its keys, and return it; `None` if there is none.

        Claims that have to wait for a key are appended to `held_up`, each once.
        """
        while self._candidates:
            _, claim = heappop(self._candidates)
            if claim.state != "waiting":
                continue
            if self._can_hold(claim):
                self._hold(claim)
                return claim
            if not claim.held_up:
                claim.held_up = True
                self.held_up.append(claim)
        return None

    def release(self, claim: Claim) -> None:
        """Release the keys of a claim, or remove it from the queues if it is waiting."""
        if claim.state == "held":
            for key in claim.keys:
                del self._holders[key]
                for near in self._overlaps.overlapping(key):
                    self._conflicts[near] -= 1
        claim.state = "ended"
        for key in claim.keys:
            for near in self._overlaps.overlapping(key):
                if not self._conflicts[near] and (first := self._first(near)) is not None:
                    heappush(self._candidates, (first.rank, first))

    def ahead_of(self, claim: Claim) -> tuple[Sequence[str], Sequence[Claim]]:
        """The keys that a claim waits for, and the claims that hold them or come first in their queues."""
        keys, ahead = dict[str, None](), dict[Claim, None]()
        for key in claim.keys:
            for near in self._overlaps.overlapping(key):
                holder = self._holders.get(near) or self._first(near)
                if holder is not None and holder is not claim and (holder.state == "held" or holder.rank < claim.rank):
                    keys[key] = ahead[holder] = None
        return tuple(keys), tuple(ahead)

    def _add_key(self, key: str) -> None:
        near = self._overlaps.add(key)
        self._queues[key] = []
        self._conflicts[key] = sum(other in self._holders for other in near)

    def _can_hold(self, claim: Claim) -> bool:
        if not claim.keys:
            return True
        if any(self._conflicts[key] for key in claim.keys):
            return False
        lines = (near for key in claim.keys for near in self._overlaps.overlapping(key))
        return all((first := self._first(near)) is None or first.rank >= claim.rank for near in lines)

    def _hold(self, claim: Claim) -> None:
        claim.state = "held"
        for key in claim.keys:
            self._holders[key] = claim
            for near in self._overlaps.overlapping(key):
                self._conflicts[near] += 1

    def _first(self, key: str) -> Claim | None:
        """The first waiting claim in the queue for a key; removes claims that no longer wait."""
        line = self._queues[key]
        while line and line[0][1].state != "waiting":
            heappop(line)
        return line[0][1] if line else None
