"""The points of a run at which a fork can begin, read from its record: nothing is ever written for them.

Each has a name. A turn that has ended is called by its place, and whatever was named keeps the name it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from teamwright.errors import UnknownName, UsageError
from teamwright.history.record.asks import RecordedAsk
from teamwright.history.record.run_record import RunRecord
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.events.run import RunCheckpoint, RunPaused, RunStarted
from teamwright.values.key import is_inside, key_below_root, parent_key
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.models import Record
from teamwright.values.names import check_name
from teamwright.values.results import iso

START = "start"


class Checkpoint(Record, frozen=True):
    """A point of a run: the number of its last event, a name, what was before it and what had been used by then."""

    number: int
    name: str
    how: Literal["start", "turn", "pause", "named"]
    at: str
    after: str
    key: str = ""
    total_tokens: int = 0
    usd: float | None = None


def checkpoints_in(events: Sequence[Event], record: RunRecord) -> list[Checkpoint]:
    """All checkpoints of a run, in order."""
    return fold(events, _CheckpointFold(record)).found


def turns_in(record: RunRecord) -> dict[str, RecordedAsk]:
    """The asks that teams made of their members, by place, in the order of their beginnings.

    Neither the whole team is among them nor what agents ask each other, which is their affair.
    """
    found: dict[str, RecordedAsk] = {}
    teams: set[str] = set()
    for key, ask in record.asks.items():
        around = record.turn_of(parent_key(key))
        if around in teams:
            found[key] = ask
        if ask.is_team and (not around or around in teams):
            teams.add(key)
    return found


def calls_beyond(events: Sequence[Event], last: int) -> set[int]:
    """The numbers of calls up to `last` that came back only after it: a run that ends there never made them."""
    open_: dict[str, int] = {}
    found: set[int] = set()
    for event in events:
        match event.fact:
            case AgentCalled() if event.number <= last:
                open_[event.key] = event.number
            case AgentReturned() | AgentCallFailed() if event.key in open_:
                number = open_.pop(event.key)
                if event.number > last:
                    found.add(number)
            case _:
                pass
    return found


def find_checkpoint(at: int | str | Checkpoint, run_id: str, last: int, known: Sequence[Checkpoint]) -> int:
    """The number of the event that is meant: by its number, by a name, or by a place, which is the last point there.

    Of several checkpoints with one name the last is meant.
    """
    if isinstance(at, Checkpoint):
        at = at.number
    if isinstance(at, str) and not (at.isascii() and at.isdigit()):
        exact = [one.number for one in known if one.name == at]
        there = exact or [one.number for one in known if at and is_inside(one.name, at)]
        if not there:
            raise UnknownName("checkpoint", at, dict.fromkeys(one.name for one in known))
        return there[-1]
    number = int(at)
    if not 1 <= number <= last:
        raise UsageError(f"Run {run_id!r} has events 1 to {last}; {number} is not one of them.")
    return number


def checkpoint_name(number: int, known: Sequence[Checkpoint]) -> str:
    """What the point after this event is called, if it is called anything."""
    return next((one.name for one in reversed(known) if one.number == number), "")


def check_checkpoint_name(name: str) -> str:
    """Return a name that a person gives to a checkpoint when it can be told from a number."""
    if name.isdigit():
        raise UsageError(f"{name!r} would be taken for the number of an event; give the checkpoint a word for a name.")
    return check_name("checkpoint", name)


class _CheckpointFold:
    """The checkpoints of a run so far, and what had been used."""

    def __init__(self, record: RunRecord) -> None:
        self.found: list[Checkpoint] = []
        self._record = record
        self._used: Usage = NOTHING
        self._pauses = 0
        self._turns = turns_in(record)

    def apply(self, event: Event) -> None:
        """Apply one event."""
        match event.fact:
            case AgentReturned(usage=usage):
                self._used = self._used + usage
            case RunStarted():
                self._add(event, START, "start", "the task was given")
            case AgentReplied() | AgentFailed() as ending if (
                event.key in self._turns and not self._turns[event.key].stopped
            ):
                self._add(event, key_below_root(event.key), "turn", self._after(event, ending))
            case RunPaused(stop_reason=reason):
                self._pauses += 1
                self._add(event, f"pause-{self._pauses}", "pause", f"the run was set down ({reason})")
            case RunCheckpoint(name=name, by=by):
                self._add(event, name, "named", f"{by or self._member(event.scope)} set it")
            case _:
                pass

    def _add(self, event: Event, name: str, how: Literal["start", "turn", "pause", "named"], after: str) -> None:
        self.found.append(
            Checkpoint(
                number=event.number,
                name=name,
                how=how,
                at=iso(event.time),
                after=after,
                key=event.key if how in {"turn", "named"} else "",
                total_tokens=self._used.total_tokens,
                usd=self._used.usd,
            )
        )

    def _after(self, event: Event, ending: AgentReplied | AgentFailed) -> str:
        ask = self._record.asks[event.key]
        if isinstance(ending, AgentFailed):
            return f"{ask.asked.member} failed ({ending.error})"
        return f"the team {ask.asked.member} ended" if ask.is_team else f"{ask.asked.member} replied"

    def _member(self, scope: str) -> str:
        """In whose turn something was recorded; a person has none."""
        turn = self._record.turn_of(scope)
        if not turn:
            return "a person"
        ask = self._record.asks[turn]
        return f"the team {ask.asked.member}" if ask.is_team else ask.asked.member
