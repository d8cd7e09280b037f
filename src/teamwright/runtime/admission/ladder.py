"""The rungs of the degradation ladder, in their order. Each changes one thing about what is sent or who works.

A rung that would change nothing in a team is passed over there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from teamwright.values.limits.degradation import Cutback
from teamwright.values.specs.manifest import Share


class Thresholds(NamedTuple):
    """When a policy cuts back and when it lets go, as shares of the limit, and how far it goes."""

    above: float
    below: float
    summary: float
    workers: int
    recent: int


AUTO = Thresholds(above=1.0, below=0.8, summary=0.82, workers=1, recent=6)
AGGRESSIVE = Thresholds(above=0.9, below=0.7, summary=0.65, workers=2, recent=3)


@dataclass(slots=True)
class TeamTraits:
    """What there is to cut back in a team; `busiest` is how many have worked at once so far."""

    share: Share
    peers: bool
    thrifty: frozenset[str]
    busiest: int = 0


class Rung(Protocol):
    """One thing to cut back: a field of the `Cutback`."""

    @property
    def name(self) -> str: ...

    @property
    def field(self) -> str: ...

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Cut this back further; the same value where nothing is left to cut."""
        ...


class PeerTalk:
    """Workers no longer talk with each other."""

    name, field = "peer_talk", "peers"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Only shapes with channels between workers have any."""
        return now.changed(peers=False) if traits.peers else now


class Summaries:
    """Summaries in envelopes are shorter."""

    name, field = "summaries", "summary"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Only with `share: a2a_lite` are there summaries."""
        return now.changed(summary=thresholds.summary) if traits.share == "a2a_lite" else now


class Workers:
    """Fewer work at once: talk about half-finished work is saved, and less is under way when the budget ends."""

    name, field = "workers", "workers"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """One always works."""
        return now.changed(workers=max(1, traits.busiest - thresholds.workers)) if traits.busiest > 1 else now


class Economy:
    """Members of lower priority answer with their cheaper models."""

    name, field = "economy", "economy"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Only those who have one."""
        return now.changed(economy=True) if traits.thrifty else now


class Compaction:
    """Only the latest messages are told whole, and earlier ones by a line each."""

    name, field = "compaction", "recent"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """With `share: output` nothing earlier is told anyway."""
        return now.changed(recent=thresholds.recent) if traits.share != "output" else now


LADDER: tuple[Rung, ...] = (PeerTalk(), Summaries(), Workers(), Economy(), Compaction())
