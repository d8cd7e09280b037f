"""The past of a run, read from its journal: what was asked, called, answered and spent, and in which order.

An ask whose ending is recorded stands for everything inside it, so a replay skips the inside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.protocol import Returned
from teamwright.budget.ledger import refusal_text
from teamwright.errors import AgentError, JournalCorrupt, LimitReached
from teamwright.recovery.retry import recorded_error
from teamwright.values.events import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
    Body,
    BudgetRefused,
    Event,
    MessageRef,
    PersonAnswered,
    RunEnded,
    RunIntervened,
    RunPaused,
    RunResumed,
    RunStarted,
    ScopeExpired,
    TimerFired,
    TimerSet,
)
from teamwright.values.messages import Message
from teamwright.values.names import SEPARATOR
from teamwright.values.people import Answer
from teamwright.values.turns import Failure, Reply

EXPIRED = "!expired"


@dataclass(slots=True)
class RecordedAsk:
    """One ask and its ending, if it has one."""

    asked: AgentAsked
    time: float
    ending: AgentReplied | AgentFailed | None = None

    @property
    def stopped(self) -> bool:
        """Whether it was cut short by a decision that is recorded elsewhere."""
        return isinstance(self.ending, AgentFailed) and self.ending.error == "cancelled"


@dataclass(slots=True)
class RecordedCall:
    """The attempts of one effect."""

    request: str
    attempts: int = 0
    failures: int = 0
    in_doubt: bool = False
    reserved: int = 0
    retry_at: float | None = None
    outcome: AgentReturned | AgentCallFailed | BudgetRefused | None = None


@dataclass(slots=True)
class Spending:
    """What was charged within a scope."""

    tokens: int = 0
    calls: int = 0


@dataclass(slots=True)
class Past:
    """Everything recorded of a run, indexed by key."""

    number: int = 0
    started: RunStarted | None = None
    started_at: float = 0.0
    ended: RunEnded | None = None
    paused: RunPaused | None = None
    cancelled: bool = False
    letter: int = 0
    asks: dict[str, RecordedAsk] = field(default_factory=dict[str, RecordedAsk])
    calls: dict[str, RecordedCall] = field(default_factory=dict[str, RecordedCall])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    timers: dict[str, float] = field(default_factory=dict[str, float])
    fired: set[str] = field(default_factory=set[str])
    expired: set[str] = field(default_factory=set[str])
    marks: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    noted: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    spent: defaultdict[str, Spending] = field(default_factory=lambda: defaultdict(Spending))
    drives: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    bodies: dict[Body, str] = field(default_factory=dict[Body, str])
    times: dict[str, float] = field(default_factory=dict[str, float])
    _due: dict[str, str] = field(default_factory=dict[str, str])
    _linked: set[str] = field(default_factory=set[str])
    _inside: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, events: Iterable[Event]) -> Past:
        """Read the events of one run."""
        past = cls()
        for event in events:
            past.take(event)
        return past

    def take(self, event: Event) -> None:
        """Read one event."""
        fact, key = event.fact, event.key
        self.number = event.number
        match fact:
            case AgentAsked():
                self.asks[key] = RecordedAsk(fact, event.time)
            case AgentReplied() | AgentFailed():
                self._ended(event, fact)
            case AgentCalled():
                call = self.calls.setdefault(key, RecordedCall(fact.request))
                if call.in_doubt:
                    self._charge(event.scope, call.reserved, 1)
                call.attempts, call.in_doubt, call.reserved = fact.attempt, True, fact.reserved
                call.request = fact.request
            case AgentReturned() | AgentCallFailed() | BudgetRefused():
                self._settled(event, fact)
            case PersonAnswered():
                self.answers[key] = fact.answer
                self._schedule(event.scope, key, event.time)
            case TimerSet():
                self.timers[key] = event.time + fact.seconds
            case TimerFired():
                self.fired.add(key)
                self._schedule(event.scope, key, event.time)
            case ScopeExpired():
                self.expired.add(key)
                self._schedule(event.scope, key + EXPIRED, event.time)
            case _:
                self._about_the_run(event)
        if self.drives:
            self.drives[-1] = (self.drives[-1][0], event.time)

    def _about_the_run(self, event: Event) -> None:
        match event.fact:
            case RunStarted():
                self.started, self.started_at = event.fact, event.time
                self.drives.append((event.time, event.time))
            case RunResumed():
                self.paused = None
                self.drives.append((event.time, event.time))
            case RunPaused():
                self.paused = event.fact
            case RunIntervened():
                self.letter = max(self.letter, event.fact.letter)
                self.cancelled = self.cancelled or event.fact.intervention.kind == "cancel"
            case RunEnded():
                self.ended = event.fact
            case fact:
                self.noted.add((fact.kind, event.scope, event.place))

    def _ended(self, event: Event, fact: AgentReplied | AgentFailed) -> None:
        ask = self.asks[event.key]
        ask.ending = fact
        self._forget_inside(event.key)
        if not ask.stopped:
            self._schedule(event.scope, event.key, event.time)

    def _settled(self, event: Event, fact: AgentReturned | AgentCallFailed | BudgetRefused) -> None:
        call = self.calls.setdefault(event.key, RecordedCall(""))
        match fact:
            case AgentReturned():
                call.outcome, call.in_doubt = fact, False
                tokens = fact.usage.total_tokens if fact.usage.requests else call.reserved
                self._charge(event.scope, tokens, 1)
                self._mark(event.scope, fact.mark)
            case AgentCallFailed():
                self._mark(event.scope, fact.mark)
                call.failures, call.in_doubt = call.failures + 1, False
                self._charge(event.scope, call.reserved if fact.charged else 0, 1)
                if fact.retry_in is None:
                    call.outcome = fact
                else:
                    call.retry_at = event.time + fact.retry_in
            case BudgetRefused():
                call.outcome = fact

    def _mark(self, scope: str, mark: str | None) -> None:
        if mark and (ask := self.asks.get(scope)):
            self.marks[ask.asked.member, mark] += 1

    def _charge(self, scope: str, tokens: int, calls: int) -> None:
        while True:
            spending = self.spent[scope]
            spending.tokens += tokens
            spending.calls += calls
            if not scope:
                return
            scope = scope.rpartition(SEPARATOR)[0]

    def _schedule(self, scope: str, key: str, time: float) -> None:
        self._due[key] = scope
        self.times[key] = time
        self._inside[scope].append(key)
        while scope and scope not in self._linked:
            self._linked.add(scope)
            inner, scope = scope, scope.rpartition(SEPARATOR)[0]
            self._inside[scope].append(inner)

    def _forget_inside(self, scope: str) -> None:
        self._linked.discard(scope)
        for key in self._inside.pop(scope, ()):
            self._due.pop(key, None)
            self._forget_inside(key)

    @property
    def due(self) -> list[str]:
        """The keys for which something is to be delivered, in journal order."""
        return list(self._due)

    def charge_in_doubt(self) -> None:
        """Charge what was under way when the record ends; nobody knows whether it was paid for."""
        for key, call in self.calls.items():
            if call.in_doubt:
                self._charge(key.rpartition(SEPARATOR)[0], call.reserved, 1)

    def driven_since(self, time: float) -> float:
        """Seconds with a driver since the given time, up to the end of the record."""
        return sum(max(0.0, end - max(begin, time)) for begin, end in self.drives)

    def needed_bodies(self) -> set[Body]:
        """The bodies without which the run can't be replayed."""
        found: set[Body] = set()
        for key, ask in self.asks.items():
            if ask.ending is not None and (ask.stopped or key in self._due):
                found.update(ref.body for ref in ask.ending.messages)
                if isinstance(ask.ending, AgentReplied) and ask.ending.data:
                    found.add(ask.ending.data)
        found.update(call.outcome.body for call in self.calls.values() if isinstance(call.outcome, AgentReturned))
        if self.started:
            found.update((self.started.task, self.started.manifest, *(ref.body for ref in self.started.history)))
        return found

    def value(self, body: Body) -> JsonValue:
        """What a body says."""
        if body not in self.bodies:
            raise JournalCorrupt(f"The body {body!r} is missing from the journal; restore it from a backup.")
        return from_json(self.bodies[body])

    def messages(self, refs: Collection[MessageRef]) -> tuple[Message, ...]:
        """The messages behind references."""
        return tuple(
            Message(name=ref.name, content=str(self.value(ref.body)), role=ref.role or "assistant") for ref in refs
        )

    def reply(self, ask: RecordedAsk) -> Reply | Failure:
        """What an ask came to."""
        match ask.ending:
            case AgentReplied() as said:
                return Reply(
                    messages=self.messages(said.messages),
                    data=self.value(said.data) if said.data else None,
                    usage=said.usage,
                    signal=said.signal,
                    stop_reason=said.stop_reason,
                    truncated=said.truncated,
                    warnings=said.warnings,
                )
            case AgentFailed() as failed:
                return Failure(
                    member=failed.member,
                    error=failed.error,
                    message=failed.message,
                    messages=self.messages(failed.messages),
                )
            case None:
                raise AssertionError("only an ask that has ended has a reply")

    def returned(self, call: RecordedCall) -> Returned:
        """What an effect came to; raises what it failed with."""
        match call.outcome:
            case AgentReturned() as fact:
                return Returned(self.value(fact.body), fact.usage, fact.mark, fact.truncated)
            case AgentCallFailed() as fact:
                raise recorded_error(fact.error, fact.message)
            case BudgetRefused() as fact:
                raise LimitReached(refusal_text(fact.level, fact.what, fact.needed, fact.left, fact.limit))
            case None:
                raise AgentError("the effect has no outcome yet")
