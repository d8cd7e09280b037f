"""How freely a team may work at a moment: what is cut back when a budget gets tight. It never says why."""

from __future__ import annotations

from typing import Literal

from teamwright.values.models import Record

Degradation = Literal["none", "auto", "aggressive", "ask"]
"""What a team does when its budget will not last: nothing, cut back, cut back early and hard, or ask a person first."""


class Posture(Record, frozen=True):
    """What is cut back: talk between workers, the length of summaries, how many work at once, the models of those who
    can do with cheaper ones, and how many of the latest messages are told whole.
    """

    peers: bool = True
    summary: float = 1.0
    workers: int | None = None
    economy: bool = False
    recent: int | None = None

    def width(self, most: int) -> int:
        """How many may work at once now, of so many."""
        return most if self.workers is None else max(1, min(most, self.workers))


AT_EASE = Posture()
"""Nothing is cut back."""
