"""Who may go next where keys are owned: all keys of a claim at once, and nobody who waits is passed over for ever.

A claim goes when none of its keys overlaps one that is held, or one that a claim before it waits for. It is pure: it
knows nothing of tasks, branches or time, and whoever uses it says what a claim is for. Nobody looks at all who wait:
those who want a key stand in a line, and when the key is free only the first of the line is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from teamwright.values.owned_paths import Overlaps

Rank = tuple[int, int]
"""What goes before what: the higher priority first, then the lower number."""


@dataclass(slots=True, eq=False)
class Claim:
    """Somebody who wants these keys, has them, or has given them back."""

    name: str
    keys: tuple[str, ...]
    rank: Rank
    state: Literal["waiting", "held", "ended"] = "waiting"
    held_up: bool = False


class Claims:
    """All claims that may stand in each other's way."""

    def __init__(self) -> None:
        self._overlaps = Overlaps()
        self._holders: dict[str, Claim] = {}
        self._busy: dict[str, int] = {}
        self._lines: dict[str, list[tuple[Rank, Claim]]] = {}
        self._hopeful: list[tuple[Rank, Claim]] = []
        self._added = 0
        self.held_up: list[Claim] = []

    def add(self, name: str, keys: Iterable[str] = (), priority: int = 0, number: int | None = None) -> Claim:
        """A claim that waits from now on; `number` breaks ties, without one those that came first go first."""
        self._added += 1
        claim = Claim(name, tuple(dict.fromkeys(keys)), (-priority, self._added if number is None else number))
        for key in claim.keys:
            if key not in self._busy:
                self._see(key)
            heappush(self._lines[key], (claim.rank, claim))
        heappush(self._hopeful, (claim.rank, claim))
        return claim

    def next(self) -> Claim | None:
        """The first of those that may go now; it holds its keys from here on.

        Claims that turn out to have to wait for a key are put into `held_up`, each once.
        """
        while self._hopeful:
            _, claim = heappop(self._hopeful)
            if claim.state != "waiting":
                continue
            if self._may_go(claim):
                self._hold(claim)
                return claim
            if not claim.held_up:
                claim.held_up = True
                self.held_up.append(claim)
        return None

    def end(self, claim: Claim) -> None:
        """A claim gives its keys back, or waits no longer."""
        if claim.state == "held":
            for key in claim.keys:
                del self._holders[key]
                for near in self._overlaps.overlapping(key):
                    self._busy[near] -= 1
        claim.state = "ended"
        for key in claim.keys:
            for near in self._overlaps.overlapping(key):
                if not self._busy[near] and (first := self._first(near)) is not None:
                    heappush(self._hopeful, (first.rank, first))

    def ahead_of(self, claim: Claim) -> tuple[Sequence[str], Sequence[Claim]]:
        """The keys that a claim waits for, and who has each of them or is to have it first."""
        keys, ahead = dict[str, None](), dict[Claim, None]()
        for key in claim.keys:
            for near in self._overlaps.overlapping(key):
                holder = self._holders.get(near) or self._first(near)
                if holder is not None and holder is not claim and (holder.state == "held" or holder.rank < claim.rank):
                    keys[key] = ahead[holder] = None
        return tuple(keys), tuple(ahead)

    def _see(self, key: str) -> None:
        near = self._overlaps.add(key)
        self._lines[key] = []
        self._busy[key] = sum(other in self._holders for other in near)

    def _may_go(self, claim: Claim) -> bool:
        if any(self._busy[key] for key in claim.keys):
            return False
        lines = (near for key in claim.keys for near in self._overlaps.overlapping(key))
        return all((first := self._first(near)) is None or first.rank >= claim.rank for near in lines)

    def _hold(self, claim: Claim) -> None:
        claim.state = "held"
        for key in claim.keys:
            self._holders[key] = claim
            for near in self._overlaps.overlapping(key):
                self._busy[near] += 1

    def _first(self, key: str) -> Claim | None:
        """Who is first in the line for a key; those that have gone are taken out on the way."""
        line = self._lines[key]
        while line and line[0][1].state != "waiting":
            heappop(line)
        return line[0][1] if line else None
