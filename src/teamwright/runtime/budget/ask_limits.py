"""How many asks a part of a run may make, and how deep they may nest: no member starts an endless family of others.

An ask counts where it begins, also one that is refused, in the order of the record. So a resumed run decides the same,
and a fork goes on counting where it begins. The run's own ask is none of these.
"""

from __future__ import annotations

from msgspec import Struct

from teamwright.errors import LimitReached
from teamwright.history.record.run_record import RunRecord
from teamwright.values.key import is_inside, parent_keys
from teamwright.values.limits import Limits, tighter


class LimitedAsks(Struct):
    """The asks that have begun inside one level with limits, in order: the outermost team, for the limits of a run."""

    level: str
    limits: Limits
    begun: dict[str, int]

    @classmethod
    def of(cls, level: str, limits: Limits, record: RunRecord, own_ask: str) -> LimitedAsks:
        """Count what is recorded; `own_ask` is the key of the run's own ask."""
        inside = level or own_ask
        keys = [key for key in record.asks if is_inside(key, inside) and not record.is_superseded(key)]
        return cls(inside, limits, {key: place for place, key in enumerate(keys)})

    def refusal(self, key: str, depth: int) -> str | None:
        """Count an ask; returns why it is refused, if it is."""
        place = self.begun.setdefault(key, len(self.begun))
        if self.limits.depth is not None and depth > self.limits.depth:
            return f"asks in {self.level!r} may nest {self.limits.depth} deep (limits: depth)"
        if self.limits.asks is not None and place >= self.limits.asks:
            return f"{self.level!r} may make {self.limits.asks} asks, which have begun (limits: asks)"
        return None


class AskLimits:
    """The limits on asks of one run, at all its levels."""

    __slots__ = ("_levels", "by_level")

    def __init__(self) -> None:
        self.by_level: dict[str, Limits] = {}
        """Empty in most runs, which then count nothing."""
        self._levels: dict[str, LimitedAsks] = {}

    def add(self, level: str, limits: Limits) -> None:
        """Limit the asks inside a level; the empty one is the whole run."""
        self.by_level[level] = limits

    def refusal(self, key: str, turns: set[str], record: RunRecord) -> LimitReached | None:
        """Count an ask that begins inside these turns, at each level around it; returns why it is refused, if it is."""
        around = [turn for turn in parent_keys(key) if turn in turns]
        if not around:  # the run's own
            return None
        refusals = [self._count(level, key, around, record) for level in self.by_level if is_inside(key, level)]
        why = next(filter(None, refusals), None)
        return None if why is None else LimitReached(f"It is not asked: {why}.")

    def _count(self, level: str, key: str, around: list[str], record: RunRecord) -> str | None:
        known = self._levels.get(level)
        if known is None:
            known = self._levels[level] = LimitedAsks.of(level, self.by_level[level], record, around[-1])
        return known.refusal(key, 1 + sum(is_inside(turn, known.level) for turn in around))

    def left(self, key: str, turns: set[str], limits: Limits | None) -> Limits | None:
        """Return the limits of a run that a call inside a turn starts, with what is left of the asks around it."""
        around = [turn for turn in parent_keys(key) if turn in turns]
        for level in self._levels.values():
            if not is_inside(key, level.level):
                continue
            own, bound = limits or Limits(), level.limits
            asks = None if bound.asks is None else max(0, bound.asks - len(level.begun))
            depth = (
                None
                if bound.depth is None
                else max(0, bound.depth - sum(is_inside(one, level.level) for one in around))
            )
            limits = own.model_copy(update={"asks": tighter(own.asks, asks), "depth": tighter(own.depth, depth)})
        return limits
