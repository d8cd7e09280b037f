"""Checkpoints: the points of a run at which a fork can start. They are computed from the record, never stored.

The checkpoint after a turn is named by the turn's place; a named checkpoint has the name it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from teamwright.errors import UnknownName, UsageError
from teamwright.history.recorded_asks import RecordedAsk
from teamwright.history.run_record import RunRecord
from teamwright.values.events.agent import AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import Event, fold
from teamwright.values.events.run import RunCheckpoint, RunPaused, RunStarted
from teamwright.values.key import is_inside, key_below_root, parent_key
from teamwright.values.limits import NOTHING, Usage
from teamwright.values.names import check_name
from teamwright.values.turns.results import iso
from teamwright.values.value import Record

START = "start"


class Checkpoint(Record, frozen=True):
    """A point of a run: the number of its last event, its name, what happened just before, and the usage so far."""

    number: int
    name: str
    how: Literal["start", "turn", "pause", "named"]
    at: str
    after: str
    key: str = ""
    total_tokens: int = 0
    usd: float | None = None


def checkpoints_in(events: Sequence[Event], record: RunRecord) -> list[Checkpoint]:
    """Return all checkpoints of a run, in order."""
    return fold(events, _CheckpointFold(record)).found


def turns_in(record: RunRecord) -> dict[str, RecordedAsk]:
    """Return the asks that teams made of their members, by key, in the order in which they began.

    The ask of the whole team and asks between agents are not included.
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


def find_checkpoint(at: int | str | Checkpoint, run_id: str, last: int, known: Sequence[Checkpoint]) -> int:
    """Return the event number of a checkpoint, given by number, by name or by place.

    A place means the last checkpoint inside it. Of several checkpoints with one name, the last one counts.
    """
    if isinstance(at, Checkpoint):
        at = at.number
    if isinstance(at, str) and not (at.isascii() and at.isdigit()):
        exact = [one.number for one in known if one.name == at]
        there = exact or [one.number for one in known if at and is_inside(one.name, at)]
        if not there:
            raise UnknownName("checkpoint", at, dict.fromkeys(one.name for one in known))
        return there[-1]
    if isinstance(at, bool) or not isinstance(at, int | str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"A fork begins at a checkpoint, its name, or the number of an event, not at {at!r}.")
    number = int(at)
    if not 1 <= number <= last:
        raise UsageError(f"Run {run_id!r} has events 1 to {last}; {number} is not one of them.")
    return number


def checkpoint_name(number: int, known: Sequence[Checkpoint]) -> str:
    """Return the name of the checkpoint after this event, or an empty string."""
    return next((one.name for one in reversed(known) if one.number == number), "")


def check_checkpoint_name(name: str) -> str:
    """Return the name if it is valid for a checkpoint and can't be confused with an event number."""
    if check_name("checkpoint", name).isdigit():
        raise UsageError(f"{name!r} would be taken for the number of an event; give the checkpoint a word for a name.")
    return name


class _CheckpointFold:
    """Collects the checkpoints of a run, with the usage at each."""

    def __init__(self, record: RunRecord) -> None:
        self.found: list[Checkpoint] = []
        self._record = record
        self._used: Usage = NOTHING
        self._pauses = 0
        self._turns = turns_in(record)

    def apply(self, event: Event) -> None:
        match event.fact:
            case AgentReturned(usage=usage):
                self._used = self._used + usage
            case RunStarted():
                self._add(event, START, "start", "the task was given")
            case AgentReplied() | AgentFailed() as ending if (
                event.key in self._turns and not self._turns[event.key].is_cancelled
            ):
                self._add(event, key_below_root(event.key), "turn", self._after(event, ending))
            case RunPaused(stop_reason=reason):
                self._pauses += 1
                self._add(event, f"pause-{self._pauses}", "pause", f"the run paused ({reason})")
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
        """The member in whose turn an event was recorded; outside of any turn, a person."""
        turn = self._record.turn_of(scope)
        if not turn:
            return "a person"
        ask = self._record.asks[turn]
        return f"the team {ask.asked.member}" if ask.is_team else ask.asked.member
