"""Cancels a run that has no driver, from its record alone: neither the team nor its members are loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from teamwright.history.run_history import RunHistory
from teamwright.journal.protocol import Batch
from teamwright.values.events.agent import AgentFailed, AgentReplied, MessageRef, Tally
from teamwright.values.events.event import Event, Fact, fold
from teamwright.values.events.run import RunAborted, RunEnded, RunIntervened
from teamwright.values.people import Cancel
from teamwright.values.run_keys import key_and_parents
from teamwright.values.turns.results import ending_of
from teamwright.values.turns.turn import Failure
from teamwright.values.usage_and_prices import NOTHING, Usage, dollars

STOPPED = "stopped by others"


def cancel_batch(history: RunHistory, ending: Cancel | RunAborted, inbox_id: int, now: float) -> Batch:
    """Return the events that cancel or abort a run: every open ask ends, the innermost first, and then the run."""
    totals = _AskTotals(history)
    facts: list[tuple[str, Fact]] = []
    if isinstance(ending, Cancel) and history.record.cancelled is None:
        facts.append(("", RunIntervened(intervention=ending, inbox_id=inbox_id)))
    facts.extend(totals.endings())
    facts.extend(("", refusal) for refusal in history.record.interventions.refusals())
    facts.append(("", totals.run_ended(ending)))
    run_id = history.events[0].run_id
    events: list[Event] = []
    for number, (key, fact) in enumerate(facts, start=history.number + 1):
        scope, place = totals.place_of(key)
        events.append(Event(run_id, number, now, scope, place, fact))
    return Batch(events, {})


class _AskTotals:
    """The messages and usage of each ask so far, for its ending."""

    def __init__(self, history: RunHistory) -> None:
        self._history, self._record = history, history.record
        self._heard: defaultdict[str, list[MessageRef]] = defaultdict(list)
        self._used: defaultdict[str, Usage] = defaultdict(lambda: NOTHING)
        self._places: dict[str, tuple[str, str]] = {}
        fold(history.events, self)
        for scope, usage in history.calls():
            self._add_usage(scope, usage)

    def apply(self, event: Event) -> None:
        fact = event.fact
        if event.kind == "agent.asked":
            self._places[event.key] = (event.scope, event.place)
        elif self._record.is_superseded(event.key):
            return
        elif isinstance(fact, AgentReplied | AgentFailed) and self._record.asks[event.key].asked.purpose == "work":
            self._heard[self._record.turn_of(event.scope)].extend(fact.messages)

    def _add_usage(self, scope: str, usage: Usage) -> None:
        for around in key_and_parents(scope):
            self._used[around] = self._used[around] + usage

    def place_of(self, key: str) -> tuple[str, str]:
        """The recorded scope and place of an ask; the run itself has neither."""
        return self._places.get(key, ("", ""))

    def endings(self) -> Iterator[tuple[str, Fact]]:
        """Yield an ending for each open ask that is not superseded, the innermost first."""
        for key, ask in reversed(self._record.asks.items()):
            if ask.ending is not None or self._record.is_superseded(key):
                continue
            scope, _ = self._places[key]
            said = tuple(self._heard[key])
            if ask.is_team and scope:
                said = tuple(ref.changed(name=ask.asked.member) for ref in said)
            if ask.asked.purpose == "work":
                self._heard[self._record.turn_of(scope)].extend(said)
            spent = self._record.charges.open_turns.get(key)
            yield (
                key,
                AgentFailed(
                    member=ask.asked.member,
                    error="cancelled",
                    message=STOPPED,
                    usage=self._used[key],
                    messages=said,
                    tally=Tally(calls=spent.calls, charged=spent.tokens, charged_usd=dollars(spent.usd))
                    if spent
                    else None,
                ),
            )

    def run_ended(self, ending: Cancel | RunAborted) -> RunEnded:
        """The ending of the run, with the last message of the team as its output."""
        said = self._heard[""]
        if isinstance(ending, Cancel):
            failure = Failure(
                member=self._history.started.team, error="cancelled", message=ending.reason or "cancelled"
            )
        else:
            failure = ending.failure()
        ended = ending_of(failure, self._history.usage())
        return RunEnded(
            status=ended.status,
            stop_reason=ended.stop_reason,
            output=said[-1].body if said else None,
            usage=ended.usage,
            warnings=ended.warnings,
            seconds=self._record.scope_seconds("", 0.0),
            error=failure.error,
            message=failure.message,
            member=failure.member,
        )
