"""The rungs of the degradation ladder, in order. Each reduces one thing that is sent, or how many members work.

A rung that would change nothing in a team is skipped there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from teamwright.values.limits import Cutback
from teamwright.values.specs.manifest import Share


class Thresholds(NamedTuple):
    """At which shares of the limit a policy applies and undoes rungs, and how far each rung goes."""

    above: float
    below: float
    summary: float
    workers: int
    recent: int


AUTO = Thresholds(above=1.0, below=0.8, summary=0.82, workers=1, recent=6)
AGGRESSIVE = Thresholds(above=0.9, below=0.7, summary=0.65, workers=2, recent=3)


@dataclass(slots=True)
class TeamTraits:
    """What there is to reduce in a team; `peak_concurrency` is the largest number of concurrent asks so far.

    `closes` says whether the team declares closing asks, and `saves_money` whether money is what runs short: a cheaper
    model needs no fewer tokens.
    """

    share: Share
    peers: bool
    economy_members: frozenset[str]
    closes: bool = False
    peak_concurrency: int = 0
    saves_money: bool = True


class Rung(Protocol):
    """One reduction: a field of the `Cutback`."""

    @property
    def name(self) -> str: ...

    @property
    def field(self) -> str: ...

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Return the cutback with this reduction added; unchanged where there is nothing more to reduce."""
        ...


class PeerTalk:
    """Workers no longer talk with each other."""

    name, field = "peer_talk", "peers"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Applies only to topologies with channels between workers."""
        return now.changed(peers=False) if traits.peers else now


class Summaries:
    """Envelopes carry shorter summaries."""

    name, field = "summaries", "summary"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Applies only with `share: a2a_lite`, which has summaries."""
        return now.changed(summary=thresholds.summary) if traits.share == "a2a_lite" else now


class Workers:
    """Fewer members work at once: less talk about half-finished work, and less in flight when the budget ends."""

    name, field = "workers", "workers"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Keeps at least one worker."""
        peak = traits.peak_concurrency
        return now.changed(workers=now.width(max(1, peak - thresholds.workers))) if peak > 1 else now


class Economy:
    """Members of lower priority answer with their cheaper models."""

    name, field = "economy", "economy"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Applies only to members that have one, and where money runs short."""
        return now.changed(economy=True) if traits.economy_members and traits.saves_money else now


class Compaction:
    """Members receive only the latest messages whole, and an excerpt of each earlier one; each time half as many."""

    name, field = "compaction", "recent"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Skipped with `share: output`, where members receive no earlier messages."""
        if traits.share == "output":
            return now
        return now.changed(recent=thresholds.recent if now.recent is None else max(1, now.recent // 2))


class ShortAnswer:
    """The closing ask gets an excerpt of every message, and the cheaper model if others use theirs."""

    name, field = "answer", "answer"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Applies to teams that declare closing asks: a whole answer is better than a part of one, or none."""
        return now.changed(answer=True) if traits.closes else now


FORECAST_LADDER: tuple[Rung, ...] = (PeerTalk(), Summaries(), Workers(), Economy(), Compaction())
"""The rungs that a forecast applies."""
LADDER: tuple[Rung, ...] = (*FORECAST_LADDER, ShortAnswer())
"""All rungs; the last one only after a refusal."""
