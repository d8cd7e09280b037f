"""Facts about a team at work: who speaks, what was decided, and what reached whom."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.models import Record
from teamwright.values.results import StopReason
from teamwright.values.turns.envelope import RiskLevel


class TeamStarted(Record, frozen=True):
    kind: ClassVar = "team.started"
    strategy: str
    strategy_version: int
    members: tuple[str, ...]
    share: str = "transcript"


class TeamReopened(Record, frozen=True):
    """In the run that this one was forked from a nested team had ended here. Its members may differ: it ends anew."""

    kind: ClassVar = "team.reopened"


class TeamEnded(Record, frozen=True):
    kind: ClassVar = "team.ended"
    stop_reason: StopReason
    turns: int = 0


class TeamSelected(Record, frozen=True):
    """Who speaks next: `by` whom it was chosen, `how` the answer was read, and why it fell back, if it did."""

    kind: ClassVar = "team.selected"
    member: str
    turn: int
    how: Literal["structured", "exact", "case", "mention", "only", "fallback"]
    by: str = ""
    reason: str = ""


class TeamRouted(Record, frozen=True):
    """The way that was taken from one member to the next, and its condition; to nobody, where no way was open."""

    kind: ClassVar = "team.routed"
    source: str
    to: str | None = None
    when: str | None = None


class TeamDecided(Record, frozen=True):
    """An orchestrator decided what comes next; `to` are those it delegated to, in order."""

    kind: ClassVar = "team.decided"
    by: str
    action: Literal["delegate", "synthesize", "clarify"]
    iteration: int
    to: tuple[str, ...] = ()


class TeamToldBack(Record, frozen=True):
    """A member's answer could not be used, so it was told why and asked once more."""

    kind: ClassVar = "team.told_back"
    member: str
    problem: str


class TeamEscalated(Record, frozen=True):
    """A member's reply is of high or critical risk, so it counts only if `to` lets it pass; nobody named is a person.

    `reason` says why it is a person's matter although the team has a lead.
    """

    kind: ClassVar = "team.escalated"
    member: str
    task_id: str
    risk_level: RiskLevel
    to: str = ""
    reason: str = ""


class TeamPlanned(Record, frozen=True):
    """How a team is going to work through its plan, and why in this shape where that was chosen for it."""

    kind: ClassVar = "team.planned"
    topology: str
    steps: int
    rounds: int
    width: int
    lead: str = ""
    workers: tuple[str, ...] = ()
    tokens: int = 0
    reason: str = ""


class TeamTold(Record, frozen=True):
    """Somebody tells others something in a round of a plan: `count` messages to each of them."""

    kind: ClassVar = "team.told"
    by: str
    to: tuple[str, ...]
    round: int
    count: int = 1


class TeamChannelOpened(Record, frozen=True):
    """Two workers may talk with each other, since one is stopped at its step by what the other does."""

    kind: ClassVar = "team.channel_opened"
    step: str
    between: tuple[str, ...]
    reason: str


class TeamChannelClosed(Record, frozen=True):
    """Two workers have talked for as long as they may, or until one said that the matter is settled."""

    kind: ClassVar = "team.channel_closed"
    step: str
    between: tuple[str, ...]
    messages: int
    settled: bool


class TeamEmitted(Record, frozen=True):
    """An event within a reactive team: `event` is its id there, `cause` the one it follows from, `to` who reacts."""

    kind: ClassVar = "team.emitted"
    event: str
    type: str
    depth: int
    by: str = ""
    cause: str = ""
    to: tuple[str, ...] = ()


class TeamBounded(Record, frozen=True):
    """A limit of a reactive team was reached: this event, and those like it from now on, are not taken.

    `chain` holds the types of the events that led to it, the nearest last.
    """

    kind: ClassVar = "team.bounded"
    limit: Literal["max_events", "max_depth"]
    most: int
    type: str
    by: str
    chain: tuple[str, ...] = ()

    @property
    def chain_text(self) -> str:
        """The chain in words; one that comes back to where it began is a loop."""
        loop = len(self.chain) > 1 and self.chain[0] == self.chain[-1]
        return f"in the {'loop' if loop else 'chain'} {' → '.join(self.chain)}"


class TeamGoalReached(Record, frozen=True):
    """A reply brought a reactive team to its goal; what waited was dropped, and who was at work was stopped."""

    kind: ClassVar = "team.goal_reached"
    by: str
    waiting: int = 0
    at_work: int = 0
