"""Reads the turns of a recorded run for a replay: the calls of each, their usage and durations, and how it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from teamwright.history.history import RunHistory
from teamwright.history.kpis import turns_of
from teamwright.history.record.asks import RecordedBodies, recorded_reply
from teamwright.journal.protocol import Journal
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned, EffectKind, WorkspaceWritten
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.event import Event
from teamwright.values.key import key_and_parents
from teamwright.values.models import JsonValue
from teamwright.values.turns.turn import Failure, Purpose, Reply

FUNCTION_CALL = "call"
"""The place of a call that its ask announced, so that the record has no events of its own for it."""
LONGEST_OVERHEAD = 0.05


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """One attempt of a call: how long it took, and its outcome; none if it never came back."""

    seconds: float
    outcome: AgentReturned | AgentCallFailed | None = None


@dataclass(slots=True)
class TimedCall:
    """A recorded call with all its attempts.

    `reserved` are the tokens that were reserved for its prompt, where a limit applied. A call that a limit `refused`
    was never made.
    """

    place: str
    kind: EffectKind
    name: str
    began: float
    reserved: int | None = None
    ended: float = 0.0
    attempts: list[CallAttempt] = field(default_factory=list[CallAttempt])
    refused: BudgetRefused | None = None


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One turn of a leaf member. It has no `ending` if something stopped it from outside, or it is open."""

    key: str
    member: str
    digest: str
    purpose: Purpose
    calls: tuple[TimedCall, ...]
    ending: Reply | Failure | None
    writes: tuple[tuple[str, JsonValue], ...] = ()
    overhead: float = 0.0
    """Seconds of the turn beside its calls, which decide who is first among members that take equally long."""

    def batches(self) -> Iterator[list[TimedCall]]:
        """The calls in order, those that overlapped in time together."""
        batch: list[TimedCall] = []
        for call in sorted(self.calls, key=lambda one: one.began):
            if batch and call.began >= max(one.ended for one in batch):
                yield batch
                batch = []
            batch.append(call)
        if batch:
            yield batch


async def recorded_turns(journal: Journal, history: RunHistory) -> list[RecordedTurn]:
    """Return the turns of all leaf members, in the order in which they began."""
    turns = turns_of(history.events)
    keys = frozenset(turn.key for turn in turns)
    calls, writes = _calls(history.events, keys), _writes(history.events, keys)
    bodies = RecordedBodies(await journal.bodies({fact.body for facts in writes.values() for fact in facts}))
    found: list[RecordedTurn] = []
    for turn in turns:
        ask = history.record.asks[turn.key]
        ending = None
        if ask.ending is not None:
            ending = recorded_reply(ask, history.record.bodies, lambda _text, _body: None)
        made = calls[turn.key]
        if not made and turn.ended is not None and ask.asked.called:
            made = [_announced_call(turn.began, turn.ended)]
        written = tuple((fact.name, bodies.value(fact.body)) for fact in writes[turn.key])
        known = None if isinstance(ending, Failure) and not _is_own_failure(ending, made) else ending
        asked = ask.asked
        seconds = (turn.ended - turn.began) if turn.ended is not None else 0.0
        found.append(
            RecordedTurn(
                turn.key,
                turn.member,
                asked.digest,
                asked.purpose,
                tuple(made),
                _as_said(known),
                written,
                _overhead(seconds, made),
            )
        )
    return found


def _as_said(ending: Reply | Failure | None) -> Reply | Failure | None:
    """The ending without an envelope note that the engine derived from it, and will derive again."""
    if isinstance(ending, Reply) and ending.envelope_note is not None and not ending.envelope_note.own:
        return ending.changed(envelope_note=None)
    return ending


def _overhead(seconds: float, calls: Sequence[TimedCall]) -> float:
    """The time of a turn beside its calls; waits for people, budgets and models are longer and don't count."""
    busy = sum(attempt.seconds for call in calls for attempt in call.attempts)
    return min(LONGEST_OVERHEAD, max(0.0, seconds - busy))


def _announced_call(began: float, ended: float) -> TimedCall:
    seconds = max(0.0, ended - began)
    attempts = [CallAttempt(seconds, AgentReturned(body=""))]
    return TimedCall(FUNCTION_CALL, "function", FUNCTION_CALL, began, ended=ended, attempts=attempts)


def _is_own_failure(failure: Failure, calls: Sequence[TimedCall]) -> bool:
    """Whether a member failed by itself; a limit, a deadline or another branch may have stopped it instead."""
    if failure.error in {"budget", "deadline", "cancelled"}:
        return False
    return failure.error != "timeout" or any(
        isinstance(one.outcome, AgentCallFailed) for call in calls for one in call.attempts
    )


def _calls(events: Iterable[Event], turns: frozenset[str]) -> dict[str, list[TimedCall]]:
    """The calls of each turn, those of agents that it asked as tools included."""
    found: defaultdict[str, list[TimedCall]] = defaultdict(list)
    known: dict[str, TimedCall] = {}
    began: dict[str, float] = {}
    for event in events:
        match event.fact:
            case AgentCalled() as called if turn := _turn_around(event.key, turns):
                if event.key not in known:
                    place = f"{len(found[turn]) + 1}-{called.effect}"
                    prompt = called.reserved - (called.max_output or 0) if called.reserved else None
                    known[event.key] = call = TimedCall(place, called.effect, called.name, event.time, prompt)
                    found[turn].append(call)
                began[event.key] = known[event.key].ended = event.time
            case AgentReturned() | AgentCallFailed() as outcome if event.key in began:
                call, seconds = known[event.key], max(0.0, event.time - began.pop(event.key))
                call.attempts.append(CallAttempt(seconds, outcome))
                call.ended = event.time
            case BudgetRefused() as refused if turn := _turn_around(event.key, turns):
                place = f"{len(found[turn]) + 1}-refused"
                kind = "function" if refused.what == "calls" else "model"
                found[turn].append(TimedCall(place, kind, "", event.time, ended=event.time, refused=refused))
                found[turn][-1].attempts.append(CallAttempt(0.0))
            case _:
                pass
    for key in began:
        known[key].attempts.append(CallAttempt(0.0))
    return found


def _writes(events: Iterable[Event], turns: frozenset[str]) -> dict[str, list[WorkspaceWritten]]:
    found: defaultdict[str, list[WorkspaceWritten]] = defaultdict(list)
    for event in events:
        if isinstance(event.fact, WorkspaceWritten) and (turn := _turn_around(event.key, turns)):
            found[turn].append(event.fact)
    return found


def _turn_around(key: str, turns: frozenset[str]) -> str | None:
    return next((one for one in key_and_parents(key) if one in turns), None)
