"""What people have changed in a run, as its record has it: accepted interventions, and where each took effect."""

from __future__ import annotations

from collections import defaultdict

from teamwright.values.events.run import RunApplied, RunIntervened, RunRefused
from teamwright.values.people.interventions import PauseMember, ResumeMember, Steer

TOO_LATE = "the run ended before it took effect"
"""The reason with which an accepted intervention is refused in the end."""


class RecordedInterventions:
    """The accepted interventions by their ids, the places where they took effect, and the members that are paused.

    A fork inherits the places, and with them what was said to its members. It inherits no acceptance: an intervention
    belongs to the run that it was sent to.
    """

    __slots__ = ("_pauses", "accepted", "effective", "paused", "places", "refused")

    def __init__(self) -> None:
        self.accepted: dict[int, Steer] = {}
        self.effective: set[int] = set()
        """The inbox ids of accepted interventions that have taken effect somewhere."""
        self.places: defaultdict[str, list[RunApplied]] = defaultdict(list)
        self.refused: set[str] = set()
        """The keys before which a strategy refused a change."""
        self.paused: dict[str, int] = {}
        """The paused members, each with the id of its pause in the inbox."""
        self._pauses: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.accepted or self.places)

    def refusals(self) -> list[RunRefused]:
        """Return, for a run that ends, that what was accepted and took no effect never will."""
        left = {inbox_id: steer for inbox_id, steer in self.accepted.items() if inbox_id not in self.effective}
        return [RunRefused(intervention=steer, inbox_id=inbox_id, reason=TOO_LATE) for inbox_id, steer in left.items()]

    def accept(self, fact: RunIntervened) -> None:
        """Apply the acceptance of an intervention."""
        steer = fact.intervention
        if not isinstance(steer, Steer):
            return
        self.accepted[fact.inbox_id] = steer
        if isinstance(steer, PauseMember):
            self.paused[steer.member] = fact.inbox_id
        elif isinstance(steer, ResumeMember):
            self.paused.pop(steer.member, None)

    def apply(self, key: str, fact: RunApplied, *, inherited: bool) -> None:
        """Apply the effect of an intervention at a key."""
        self.places[key].append(fact)
        if not inherited:
            self.effective.add(fact.inbox_id)

    def refuse(self, key: str, inbox_id: int) -> None:
        """Note that an accepted intervention was refused at a key, so that it takes no effect any more."""
        self.refused.add(key)
        self.effective.add(inbox_id)

    def pause_at(self, key: str, member: str) -> None:
        """Note that a member waits at a key until it is resumed."""
        self._pauses[key] = member

    def resume_at(self, key: str) -> None:
        """End the pause of the member that waited at this key, if one did."""
        if (member := self._pauses.pop(key, None)) is not None:
            self.paused.pop(member, None)
