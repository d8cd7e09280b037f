"""The record of a run, indexed by key: asks, calls, answers, timers and charges, and the order of deliveries.

A reducer for each type of fact fills the index. The recorded ending of an ask stands for everything inside the ask, so
a replay skips the inside.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import convert
from pydantic import ValidationError

from teamwright.collector_pauses import collection_paused
from teamwright.history.recorded_asks import RecordedAsk, RecordedBodies, RecordedCall, Recovered, superseded_asks
from teamwright.history.recorded_charges import (
    DriverTime,
    RecordedBudgets,
    RecordedCharges,
    RecordedDeliveries,
    RecordedInterventions,
    RecordedWorkspace,
    cost_of_run,
)
from teamwright.journal.protocol import damaged
from teamwright.values.events.agent import (
    RUN_KIND,
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentRecovered,
    AgentReplied,
    AgentReturned,
    Body,
    WorkspaceConflicted,
    WorkspaceKept,
    WorkspacePatched,
    WorkspaceWritten,
)
from teamwright.values.events.budget import (
    BudgetDegraded,
    BudgetExceeded,
    BudgetMisreported,
    BudgetOpened,
    BudgetRefused,
    BudgetUnpriced,
)
from teamwright.values.events.event import Event, Fact, fold
from teamwright.values.events.run import (
    PersonAnswered,
    PersonAsked,
    RunAborted,
    RunApplied,
    RunEnded,
    RunInterrupted,
    RunIntervened,
    RunPaused,
    RunQueued,
    RunRefused,
    RunResumed,
    RunStarted,
    ScopeExpired,
    ScopeWaited,
    TimerFired,
    TimerSet,
)
from teamwright.values.events.team import TeamReopened
from teamwright.values.limits import Limits
from teamwright.values.people import Cancel, StopStep
from teamwright.values.run_keys import in_scope, nearest_key, parent_key
from teamwright.values.specs.manifest import Source
from teamwright.values.turns.turn import OUTBOX, MemberRequest
from teamwright.values.usage_and_prices import ONE_CALL, Cost, charge_for, picodollars

EXPIRED = "!expired"
EVERYTHING = sys.maxsize
"""The inherited events of a fork that no driver has resumed yet."""
EFFECTS = ("agent.called", "agent.returned", "agent.call_failed", "budget.refused")
"""Kinds of events that a replay needs of open turns only."""


def check_record(events: Sequence[Event], *, whole: bool = True) -> None:
    """Raise `JournalCorrupt` for a record that does not begin with `RunStarted`, or in which events are missing.

    Without `whole`, the reader has left out kinds of events, so numbers may be missing.
    """
    first, last = events[0], events[-1]
    if first.number != 1 or not isinstance(first.fact, RunStarted):
        raise damaged(first.run_id, "it does not begin with the start of the run")
    if whole and last.number != len(events):
        raise damaged(first.run_id, f"{last.number - len(events)} of its events are missing")


@dataclass(slots=True)
class RunRecord:
    """Everything that is recorded of a run, indexed by key."""

    run_id: str = ""
    number: int = 0
    inherited: int = 0
    """The number of the last event that a fork inherited; 0 for a run that is no fork."""
    started: RunStarted | None = None
    started_at: float = 0.0
    ended: RunEnded | None = None
    paused: RunPaused | None = None
    folder: str = ""
    """The folder of the run's manifest, if it has moved since the run started."""
    cancelled: Cancel | None = None
    aborted: RunAborted | None = None
    last_inbox_item: int = 0
    """The id of the last inbox item that the run has processed."""
    asks: dict[str, RecordedAsk] = field(default_factory=dict[str, RecordedAsk])
    calls: dict[str, RecordedCall] = field(default_factory=dict[str, RecordedCall])
    calls_by_scope: dict[str, list[str]] | None = None
    """Their keys by scope, once they are needed."""
    closed_models: dict[str, float] = field(default_factory=dict[str, float])
    """Until when no call of the run may reach a model, whose provider has said so, by its name."""
    questions: dict[str, Event] = field(default_factory=dict[str, Event])
    answers: dict[str, Event] = field(default_factory=dict[str, Event])
    waited: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    timers: dict[str, float] = field(default_factory=dict[str, float])
    fired_timers: set[str] = field(default_factory=set[str])
    expired_scopes: set[str] = field(default_factory=set[str])
    reopened_teams: set[str] = field(default_factory=set[str])
    emitted: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    budgets: RecordedBudgets = field(default_factory=RecordedBudgets)
    charges: RecordedCharges = field(default_factory=RecordedCharges)
    deliveries: RecordedDeliveries = field(default_factory=RecordedDeliveries)
    driver_time: DriverTime = field(default_factory=DriverTime)
    recovered: set[Recovered] = field(default_factory=set[Recovered])
    interventions: RecordedInterventions = field(default_factory=RecordedInterventions)
    bodies: RecordedBodies = field(default_factory=RecordedBodies)
    workspace: RecordedWorkspace = field(default_factory=RecordedWorkspace)
    superseded: frozenset[str] | None = None
    """The asks that a fork has superseded, once computed; an ask that begins or ends may add to them."""

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> RunRecord:
        with collection_paused():
            return fold(events, cls())

    def apply(self, event: Event) -> None:
        self.number = event.number
        handle = _REDUCERS.get(type(event.fact))
        if handle is None:
            self.emitted.add((event.fact.kind, event.scope, event.place))
        else:
            handle(self, event, event.fact)
        driver = self.driver_time
        if event.time > driver.last or driver.copying:  # as `DriverTime.apply`, without a call for each event
            driver.last = event.time

    @property
    def start(self) -> RunStarted:
        """The first fact of the run, which `check_record` has ensured."""
        assert self.started is not None
        return self.started

    def source(self) -> Source:
        """The manifest and settings from which the run's team can be rebuilt."""
        try:
            source = Source.model_validate(self.bodies.value(self.start.manifest))
        except ValidationError as error:
            raise damaged(self.run_id, "its recorded manifest is invalid") from error
        return source.moved(self.folder) if self.folder else source

    def limits(self) -> Limits | None:
        bounds = self.start.limits
        try:
            return Limits.from_bounds(bounds) if bounds else None
        except ValidationError as error:
            raise damaged(self.run_id, "its recorded limits are invalid") from error

    def apply_effect(self, event: Event) -> None:
        """Apply an event of an effect after the rest of the record; skip it if its turn has ended."""
        self.number = max(self.number, event.number)
        scope = self.turn_of(event.scope)
        if scope in self.asks and self.asks[scope].ending is None:
            _REDUCERS[type(event.fact)](self, event, event.fact)
        self.driver_time.last = max(self.driver_time.last, event.time)

    def supersede(self, key: str) -> None:
        """Refund the charges of an ask and the turns inside it, because a fork makes the ask again."""
        for inner, ask in self.asks.items():
            if in_scope(inner, key):
                self.charges.refund_turn(parent_key(inner), ask)

    def charge(self, scope: str, cost: Cost, mark: str | None = None) -> None:
        """Charge an effect to its turn, which is still open."""
        self.charges.charge_effect(self.turn_of(scope), scope, cost, mark)

    def is_superseded(self, key: str) -> bool:
        """Whether a fork has made this ask, or one around it, again; its reply no longer counts."""
        if not self.inherited:
            return False
        if self.superseded is None:
            self.superseded = superseded_asks(self.asks, self.recovered, self.inherited)
        return bool(nearest_key(key, self.superseded))

    def turn_of(self, scope: str) -> str:
        """The key of the innermost ask around a scope; empty for the scope of the run."""
        return nearest_key(scope, self.asks)

    def requests(self) -> dict[str, list[MemberRequest]]:
        """What members want of others, by the key of the ask in which they said so, in order."""
        found: dict[str, list[MemberRequest]] = {}
        for event in self.workspace.writes.values():
            fact = event.fact
            if isinstance(fact, WorkspaceWritten) and fact.name.startswith(OUTBOX) and event.scope:
                request = convert(self.bodies.value(fact.body), MemberRequest)
                found.setdefault(self.turn_of(event.scope), []).append(request)
        return found

    def call_left_out(self, scope: str, is_made: Callable[[str], bool]) -> str | None:
        """Return the key of a call of a turn that began after all those ended that have been made again."""
        if self.calls_by_scope is None:
            self.calls_by_scope = {}
            for key in self.calls:
                self.calls_by_scope.setdefault(parent_key(key), []).append(key)
        keys = self.calls_by_scope.get(scope, [])
        until = max((self.calls[key].ended for key in keys if is_made(key)), default=0)
        until = max(until, self.inherited)
        return next((key for key in keys if self.calls[key].began > until and not is_made(key)), None)

    def charge_open_turns(self) -> None:
        """Charge the turns that are open at the end of the record; calls in doubt are charged in full.

        A run that a call has started goes on by itself: the next attempt of the call attaches to it, and charges it.
        """
        for key, call in self.calls.items():
            if call.in_doubt and not self.starts_run(parent_key(key)):
                self.charge(parent_key(key), call.reserved)
        self.charges.charge_open_turns(self.asks)

    def starts_run(self, scope: str) -> bool:
        """Whether the turn around a scope is a run of its own."""
        turn = self.turn_of(scope)
        return turn in self.asks and self.asks[turn].asked.member_kind == RUN_KIND

    def first_open_turn(self) -> int:
        """The number of the event with which the first open turn began; the last event where no turn is open."""
        return min(
            (ask.number for ask in self.asks.values() if ask.ending is None and not ask.is_team), default=self.number
        )

    @property
    def latest_time(self) -> float:
        """The time of the latest event; the clock of a resumed run never goes below it."""
        return max(self.driver_time.last, self.started_at)

    def scope_seconds(self, scope: str, since: float) -> float:
        """Seconds that a scope has used since it began: with a driver, and not waiting for people."""
        return max(0.0, self.driver_time.seconds(since) - self.waited[scope])

    def needed_bodies(self) -> set[Body]:
        """The hashes of the bodies that a replay needs."""
        found: set[Body] = set()
        for key, ask in self.asks.items():
            if ask.ending is not None and (key in self.deliveries or ask.is_cancelled):
                for ref in ask.ending.messages:
                    found.add(ref.body)
                if ask.ending.data:
                    found.add(ask.ending.data)
                if isinstance(ask.ending, AgentReplied) and ask.ending.tool_uses:
                    found.update(ask.ending.tool_bodies)
        for call in self.calls.values():
            if isinstance(call.outcome, AgentReturned):
                found.update(call.outcome.bodies)
        found.update(self.workspace.bodies())
        if self.started and self.started.confirm is not None:
            asked = (event.fact for event in self.questions.values())
            found.update(fact.draft for fact in asked if isinstance(fact, PersonAsked) and fact.draft is not None)
        if self.started:
            found.update((self.started.task, self.started.manifest, *(ref.body for ref in self.started.history)))
            if self.started.placed is not None:
                found.add(self.started.placed.turn)
        return found


def _started(record: RunRecord, event: Event, fact: RunStarted) -> None:
    record.run_id, record.started, record.started_at = event.run_id, fact, event.time
    record.workspace.add_attachments(fact)
    if fact.origin is not None and fact.origin.how == "fork":
        record.inherited = EVERYTHING
    record.driver_time.apply_change(event)


def _resumed(record: RunRecord, event: Event, fact: RunResumed) -> None:
    record.paused = None
    record.folder = fact.folder or record.folder
    record.driver_time.apply_change(event)
    if record.inherited == EVERYTHING:
        record.inherited = event.number - 1


def _paused(record: RunRecord, event: Event, fact: RunPaused) -> None:
    record.paused = fact
    record.driver_time.apply_change(event)


def _interrupted(record: RunRecord, event: Event, _: RunInterrupted | RunQueued) -> None:
    record.driver_time.apply_change(event)


def _intervened(record: RunRecord, event: Event, fact: RunIntervened) -> None:
    record.last_inbox_item = max(record.last_inbox_item, fact.inbox_id)
    if record.cancelled is None and isinstance(fact.intervention, Cancel):
        record.cancelled = fact.intervention
    record.interventions.accept(event.number, fact)


def _applied(record: RunRecord, event: Event, fact: RunApplied) -> None:
    record.interventions.apply(event.key, fact, inherited=record.inherited == EVERYTHING)
    if isinstance(fact.intervention, StopStep):
        record.deliveries.add(event, record.interventions.stop_at(event.number, fact.intervention))


def _steer_refused(record: RunRecord, event: Event, fact: RunRefused) -> None:
    record.last_inbox_item = max(record.last_inbox_item, fact.inbox_id)
    if fact.inbox_id in record.interventions.accepted:
        record.interventions.refuse(event.key, fact.inbox_id)


def _aborted(record: RunRecord, _: Event, fact: RunAborted) -> None:
    record.aborted = fact


def _run_ended(record: RunRecord, _: Event, fact: RunEnded) -> None:
    record.ended = fact


def _asked(record: RunRecord, event: Event, fact: AgentAsked) -> None:
    key = event.key
    if key in record.asks or not event.place:
        raise damaged(event.run_id, f"event {event.number} repeats the ask at {key!r}")
    record.asks[key] = RecordedAsk(fact, event.time, event.number)
    record.superseded = None


def _ended(record: RunRecord, event: Event, fact: AgentReplied | AgentFailed) -> None:
    key = event.key
    ask = record.asks.get(key)
    if ask is None or ask.ending is not None or not event.place:
        raise damaged(event.run_id, f"event {event.number} ends an ask that is not open")
    ask.ending = fact
    record.superseded = None
    record.deliveries.remove_inside(key)
    record.charges.end_turn(key, event.scope, ask)
    if not ask.is_cancelled:
        record.deliveries.add(event, key)


def _recovered(record: RunRecord, event: Event, fact: AgentRecovered) -> None:
    record.recovered.add((event.scope, fact.error, fact.to or fact.member))
    record.emitted.add((fact.kind, event.scope, event.place))


def _called(record: RunRecord, event: Event, fact: AgentCalled) -> None:
    call = record.calls.setdefault(event.key, RecordedCall(fact.request, began=event.number))
    if call.in_doubt and not record.starts_run(event.scope):
        record.charge(event.scope, call.reserved)
    call.attempts, call.in_doubt = fact.attempt, True
    call.reserved = Cost(fact.reserved, picodollars(fact.reserved_usd), fact.reserved_calls)
    call.request = fact.request


def _returned(record: RunRecord, event: Event, fact: AgentReturned) -> None:
    call = record.calls.setdefault(event.key, RecordedCall(""))
    call.outcome, call.in_doubt, call.ended = fact, False, event.number
    if fact.tally is not None:
        charge = cost_of_run(fact.usage, fact.tally)
    else:
        charge = charge_for(fact.usage, call.reserved, is_partial=fact.partial_usage is not None)
    record.charge(event.scope, charge, fact.mark)


def _call_failed(record: RunRecord, event: Event, fact: AgentCallFailed) -> None:
    call = record.calls.setdefault(event.key, RecordedCall(""))
    call.attempts = fact.attempt
    call.in_doubt, call.retry_at = False, None
    call.usage += fact.usage
    record.charge(event.scope, call.reserved if fact.charged else ONE_CALL, fact.mark)
    if fact.retry_in is None:
        call.outcome, call.ended = fact, event.number
    elif fact.model:
        call.outlasted += fact.retry_in
        record.closed_models[fact.model] = event.time + fact.retry_in
        return
    else:
        call.retry_at, call.retry_in = event.time + fact.retry_in, fact.retry_in
    call.failures += 1


def _refused(record: RunRecord, event: Event, fact: BudgetRefused) -> None:
    call = record.calls.setdefault(event.key, RecordedCall("", began=event.number))
    call.outcome, call.ended = fact, event.number


def _person_asked(record: RunRecord, event: Event, fact: PersonAsked) -> None:
    record.questions[event.key] = event
    if fact.question.reason == "pause":
        record.interventions.pause_at(event.key, fact.question.about)


def _answered(record: RunRecord, event: Event, _: PersonAnswered) -> None:
    record.answers[event.key] = event
    record.interventions.resume_at(event.key)
    turn = record.turn_of(event.scope)
    if not turn or record.asks[turn].is_team:
        record.deliveries.add(event, event.key)


def _waited(record: RunRecord, event: Event, fact: ScopeWaited) -> None:
    record.waited[event.scope] += fact.seconds


def _timer_set(record: RunRecord, event: Event, fact: TimerSet) -> None:
    record.timers[event.key] = event.time + fact.seconds


def _timer_fired(record: RunRecord, event: Event, _: TimerFired) -> None:
    record.fired_timers.add(event.key)
    record.deliveries.add(event, event.key)


def _expired(record: RunRecord, event: Event, _: ScopeExpired) -> None:
    record.expired_scopes.add(event.key)
    record.deliveries.add(event, event.key + EXPIRED)


def _reopened(record: RunRecord, event: Event, _: TeamReopened) -> None:
    """Deliver the team's next ending at the place of the former one."""
    record.reopened_teams.add(event.key)
    record.deliveries.add(event, event.key)


def _kept(record: RunRecord, event: Event, fact: WorkspaceKept | WorkspacePatched) -> None:
    record.workspace.apply(event)
    record.emitted.add((fact.kind, event.scope, event.place))


def _written(record: RunRecord, event: Event, _: WorkspaceWritten | WorkspaceConflicted) -> None:
    record.workspace.apply(event)


def _budget_changed(record: RunRecord, event: Event, _: Fact) -> None:
    record.budgets.apply(event)


_REDUCERS: dict[type[object], Callable[[RunRecord, Event, Any], None]] = {
    RunStarted: _started,
    RunResumed: _resumed,
    RunPaused: _paused,
    RunInterrupted: _interrupted,
    RunQueued: _interrupted,
    RunIntervened: _intervened,
    RunApplied: _applied,
    RunRefused: _steer_refused,
    RunAborted: _aborted,
    RunEnded: _run_ended,
    AgentAsked: _asked,
    AgentReplied: _ended,
    AgentFailed: _ended,
    AgentRecovered: _recovered,
    AgentCalled: _called,
    AgentReturned: _returned,
    AgentCallFailed: _call_failed,
    BudgetOpened: _budget_changed,
    BudgetRefused: _refused,
    BudgetUnpriced: _budget_changed,
    BudgetExceeded: _budget_changed,
    BudgetMisreported: _budget_changed,
    BudgetDegraded: _budget_changed,
    PersonAsked: _person_asked,
    PersonAnswered: _answered,
    ScopeWaited: _waited,
    TimerSet: _timer_set,
    TimerFired: _timer_fired,
    ScopeExpired: _expired,
    TeamReopened: _reopened,
    WorkspaceWritten: _written,
    WorkspaceConflicted: _written,
    WorkspaceKept: _kept,
    WorkspacePatched: _kept,
}
"""How each type of fact changes the record; a fact of another type is only recorded as emitted."""
