"""The interventions of one run, as its driver sees them: accepted or refused, in effect, and still to take effect; and
what their senders see of that.

A refusal is a sentence for the person who sent the intervention. Nothing is recorded here: the code that carries an
intervention out does that, and keeps this up to date.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from typing import Literal, assert_never

from teamwright.agents.agent import Agent
from teamwright.errors import InterventionRefused, NotResumable, nearest
from teamwright.history.recorded_charges import RecordedInterventions
from teamwright.history.run_record import RunRecord
from teamwright.journal.protocol import Journal
from teamwright.runtime.redaction import Redactor
from teamwright.strategies.protocol import InterventionName
from teamwright.teams.team import Team
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import RunApplied, RunEnded, RunIntervened, RunRefused
from teamwright.values.limits import Limits
from teamwright.values.people import (
    AddMember,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    RestorePlan,
    ResumeMember,
    Steer,
    StopStep,
    TeamChange,
    Tell,
)
from teamwright.values.run_keys import parent_key
from teamwright.values.value import Record


def raised(limits: Limits | None, raises: Iterable[RaiseBudget]) -> Limits | None:
    """Return the limits after these raises; a limit that is not set stays unset, and none is lowered."""
    if limits is None:
        return None
    for one in raises:
        present = limits.bounds.by_name
        higher = {name: given for name, given in one.by_name.items() if name in present and given > present[name]}
        limits = limits.model_copy(update=higher) if higher else limits
    return limits


NAMES: dict[type[Steer], InterventionName] = {
    Tell: "say",
    PauseMember: "pause",
    ResumeMember: "pause",
    RaiseBudget: "raise_budget",
    EditPlan: "edit_plan",
    RestorePlan: "restore_plan",
    StopStep: "stop_step",
    AddMember: "add_member",
    RemoveMember: "remove_member",
}
REFUSALS: dict[InterventionName, str] = {
    "say": "takes no messages while it runs",
    "pause": "can't hold one member while the others work",
    "raise_budget": "keeps its budget while it runs",
    "edit_plan": "has no plan that people edit while it runs",
    "restore_plan": "has no plan with versions",
    "stop_step": "has no steps that people stop",
    "add_member": "keeps its members while it runs",
    "remove_member": "keeps its members while it runs",
}
"""What a strategy does that does not take an intervention, after its name."""


def refusal_of(
    steer: Steer, team: Team, limits: Sequence[Limits], paused: Collection[str], joined: Collection[str]
) -> str | None:
    """Return why a run of this team can't take an intervention now; `None` if it can.

    `limits` are those that can be raised, `paused` the members that are paused, and `joined` those that were added.
    """
    name, taken = NAMES[type(steer)], team.strategy.interventions
    if name not in taken:
        can = ", ".join(taken) or "nothing"
        return f"the strategy {team.strategy.name!r} {REFUSALS[name]}; it takes: {can}"
    match steer:
        case Tell(to=""):
            return None
        case Tell(to=member):
            return _unknown(member, team, joined)
        case RemoveMember(member=member):
            return _unknown(member, team, joined) or team.strategy.refusal(steer)
        case PauseMember(member=member):
            return _unknown(member, team, joined) or (f"{member!r} is paused already" if member in paused else None)
        case ResumeMember(member=member):
            return _unknown(member, team, joined) or (f"{member!r} is not paused" if member not in paused else None)
        case RaiseBudget():
            return _no_raise(steer, limits)
        case EditPlan() | RestorePlan() | StopStep() | AddMember():
            return team.strategy.refusal(steer)
        case _:
            assert_never(steer)


def _unknown(member: str, team: Team, joined: Collection[str]) -> str | None:
    names = [*joined, *(agent.name for agent in team.everyone() if agent is not team or team.is_single_agent)]
    return None if member in names else f"there is no member {member!r}; {nearest(member, names).rstrip('.')}"


def _no_raise(steer: RaiseBudget, limits: Sequence[Limits]) -> str | None:
    """Return which of the given limits can't be raised, because it is not set or not lower."""
    for name, given in steer.by_name.items():
        present = [found[name] for one in limits if name in (found := one.bounds.by_name)]
        if not present:
            return f"neither the run nor its team has a limit on {name}, so there is none to raise"
        if given <= min(present):
            return f"the limit on {name} is {min(present):g} already; a limit can only be raised"
    return None


def redacted_steer(steer: Steer, redactor: Redactor) -> Steer:
    """Return an intervention without secrets: everything in it is recorded."""
    match steer:
        case Tell(text=text):
            steer = steer.changed(text=redactor.text(text))
        case EditPlan(plan=plan):
            steer = steer.changed(plan=redactor.value(plan))
        case AddMember(spec=spec):
            steer = steer.changed(spec=redactor.value(spec))
        case StopStep(reason=reason):
            steer = steer.changed(reason=redactor.text(reason))
        case PauseMember() | ResumeMember() | RaiseBudget() | RestorePlan() | RemoveMember():
            pass
    return steer.changed(by=redactor.text(steer.by))


class Interventions:
    """What people have changed in a run, and what has yet to take effect; each by its id in the inbox."""

    __slots__ = (
        "_accepted", "_begun", "applied", "changes", "handed_out", "joined", "messages", "paused", "placed", "raises",
        "recorded", "stops", "stops_next", "taking", "team",
    )  # fmt: skip

    def __init__(self, recorded: RecordedInterventions, team: Team) -> None:
        self.recorded, self.team = recorded, team
        self._begun: frozenset[str] | None = None
        self.taking = False
        """Whether a branch is about to take changes; others go on without them, as they do in a replay."""
        self.messages: dict[int, Tell] = {}
        self.changes: dict[int, TeamChange] = {}
        """Changes of the team that have not taken effect."""
        self.stops: dict[int, StopStep] = {}
        """Stops of steps that have not taken effect."""
        self.stops_next = False
        """Whether one of them takes effect as soon as everything that is recorded has been delivered."""
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
            case StopStep():
                self.stops[inbox_id] = steer
            case EditPlan() | RestorePlan() | AddMember() | RemoveMember():
                self.changes[inbox_id] = steer

    def raised(self, limits: Limits | None) -> Limits | None:
        """Return limits of the run or of its outermost team as people have raised them."""
        return raised(limits, self.raises.values())

    def begun(self, record: RunRecord) -> frozenset[str]:
        """Return the scopes in which an earlier driver recorded anything: nothing new comes before what it began."""
        if self._begun is None:
            found, asked = set[str](), map(parent_key, (*record.asks, *record.questions))
            for scope in (*(one for _, one, _ in record.emitted), *asked):
                while scope and scope not in found:
                    found.add(scope)
                    scope = parent_key(scope)  # noqa: PLW2901 - up to the run
            self._begun = frozenset(found)
        return self._begun

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


ReceiptStatus = Literal["sent", "accepted", "applied"]
"""In the inbox of a run without a driver; accepted by its driver; in effect."""


Follow = Callable[[str, int], AsyncGenerator[Event | AnyDelta]]


class Receipt(Record, frozen=True):
    """How far an intervention has come: `number` and `key` are the event that says so, and its place.

    `inbox_id` identifies the intervention in the inbox and in the events of the run.
    """

    run_id: str
    intervention: str
    inbox_id: int
    status: ReceiptStatus
    number: int | None = None
    key: str = ""


class Sender:
    """Sends one intervention to a run, after the event `number`, and follows what becomes of it."""

    def __init__(self, journal: Journal, follow: Follow, run_id: str, number: int) -> None:
        self._journal, self._follow, self._run_id, self._number = journal, follow, run_id, number

    async def send(self, steer: Steer, *, wait: bool) -> Receipt:
        """Send the intervention; wait until it is accepted, or in effect. Raises `InterventionRefused`.

        A run without a driver accepts it when it is resumed.
        """
        before = await self._journal.inbox(self._run_id)
        await self._journal.send(self._run_id, steer)
        items = await self._journal.inbox(self._run_id, before[-1].id if before else 0)
        inbox_id = next(item.id for item in items if item.intervention == steer)
        receipt = Receipt(run_id=self._run_id, intervention=steer.kind, inbox_id=inbox_id, status="sent")
        async for event in self._follow(self._run_id, self._number):
            if not isinstance(event, Event):
                continue
            match event.fact:
                case RunIntervened(inbox_id=found) if found == inbox_id:
                    receipt = receipt.changed(status="accepted", number=event.number, key=event.key)
                    if not wait:
                        return receipt
                case RunApplied(inbox_id=found) if found == inbox_id:
                    return receipt.changed(status="applied", number=event.number, key=event.key)
                case RunRefused(inbox_id=found, reason=reason) if found == inbox_id:
                    raise InterventionRefused(f"Run {self._run_id!r} can't take it: {reason}.")
                case RunEnded(status=status):
                    raise NotResumable(f"Run {self._run_id!r} ended ({status}) before it took effect.")
                case _:
                    pass
        return receipt
