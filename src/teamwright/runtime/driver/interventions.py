"""The interventions of one run, as its driver sees them: accepted, in effect, and still to take effect.

It starts from the record; the code that carries an intervention out keeps it up to date. It records nothing itself.
"""

from __future__ import annotations

from teamwright.agents.contract.agent import Agent
from teamwright.history.record.deliveries import RecordedInterventions
from teamwright.runtime.driver.raised_limits import raised
from teamwright.runtime.driver.redaction import Redactor
from teamwright.teams.team import Team
from teamwright.values.events.run import RunApplied
from teamwright.values.limits import Limits
from teamwright.values.people import (
    AddMember,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    ResumeMember,
    Steer,
    TeamChange,
    Tell,
)


def redacted_steer(steer: Steer, redactor: Redactor) -> Steer:
    """Return an intervention without secrets: everything in it is recorded."""
    match steer:
        case Tell(text=text):
            steer = steer.changed(text=redactor.text(text))
        case EditPlan(plan=plan):
            steer = steer.changed(plan=redactor.value(plan))
        case AddMember(spec=spec):
            steer = steer.changed(spec=redactor.value(spec))
        case PauseMember() | ResumeMember() | RaiseBudget() | RemoveMember():
            pass
    return steer.changed(by=redactor.text(steer.by))


class Interventions:
    """What people have changed in a run, and what has yet to take effect; each by its id in the inbox."""

    __slots__ = (
        "_accepted", "applied", "changes", "handed_out", "joined", "messages", "paused", "placed", "raises", "recorded",
        "team",
    )  # fmt: skip

    def __init__(self, recorded: RecordedInterventions, team: Team) -> None:
        self.recorded, self.team = recorded, team
        self.messages: dict[int, Tell] = {}
        self.changes: dict[int, TeamChange] = {}
        """Changes of the team that have not taken effect."""
        self.paused: dict[str, tuple[int, PauseMember]] = {}
        self.raises: dict[int, RaiseBudget] = {}
        self.placed: dict[str, dict[int, RunApplied]] = {}
        """The messages that the asks of each scope contain."""
        self.handed_out: set[int] = set()
        """The messages that the strategy of the team has received."""
        self.joined: dict[str, Agent] = {}
        """The members that were added, by name."""
        self.applied = set(recorded.effective)
        """The inbox ids of everything that has taken effect or never will."""
        self._accepted: dict[int, Steer] = {}
        for inbox_id, steer in recorded.accepted.items():
            if not (inbox_id in recorded.effective and isinstance(steer, TeamChange)):
                self.accept(steer, inbox_id)
        self.paused = {name: one for name, one in self.paused.items() if name in recorded.paused}

    def accept(self, steer: Steer, inbox_id: int) -> None:
        """Add an accepted intervention."""
        self._accepted[inbox_id] = steer
        match steer:
            case Tell():
                self.messages[inbox_id] = steer
            case PauseMember(member=member):
                self.paused[member] = inbox_id, steer
            case ResumeMember(member=member):
                self.paused.pop(member, None)
            case RaiseBudget():
                self.raises[inbox_id] = steer
            case EditPlan() | AddMember() | RemoveMember():
                self.changes[inbox_id] = steer

    def raised(self, limits: Limits | None) -> Limits | None:
        """Return limits of the run or of its outermost team as people have raised them."""
        return raised(limits, self.raises.values())

    @property
    def unapplied(self) -> dict[int, Steer]:
        """The accepted interventions that have not taken effect."""
        return {inbox_id: steer for inbox_id, steer in self._accepted.items() if inbox_id not in self.applied}

    @property
    def pending(self) -> list[tuple[int, RaiseBudget | ResumeMember]]:
        """What an earlier driver accepted and that takes effect at once, wherever the run is."""
        return [
            (inbox_id, steer)
            for inbox_id, steer in self.recorded.accepted.items()
            if inbox_id not in self.recorded.effective and isinstance(steer, RaiseBudget | ResumeMember)
        ]
