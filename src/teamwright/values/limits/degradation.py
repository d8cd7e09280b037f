"""Degradation: the setting of a team, and what it cuts back at a moment while its budget is tight."""

from __future__ import annotations

from typing import Literal

from teamwright.values.models import Record

Degradation = Literal["none", "auto", "aggressive", "ask"]
"""What a team does when its budget will not last: nothing, cut back, cut back early and hard, or ask a person first."""


class Cutback(Record, frozen=True):
    """What a team cuts back: peer talk, the share of a summary's usual length, how many members work at once, whether
    members with a cheaper model use it, how many of the latest messages reach a member in full, and whether the closing
    ask gets by with the least.
    """

    peers: bool = True
    summary: float = 1.0
    workers: int | None = None
    economy: bool = False
    recent: int | None = None
    answer: bool = False

    def width(self, most: int) -> int:
        """How many members of at most `most` may work at once now; always at least one."""
        return most if self.workers is None else max(1, min(most, self.workers))


NO_CUTBACK = Cutback()
"""Nothing is cut back."""
