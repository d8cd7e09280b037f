"""The status of a run, folded from its events alone, for the list of runs."""

from __future__ import annotations

from dataclasses import dataclass, fields

from teamwright.values.events.agent import AgentReturned
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import (
    RunEnded,
    RunInterrupted,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
    ScopeWaited,
)
from teamwright.values.limits import add_usd
from teamwright.values.turns.results import RunSummary, Status, StopReason, iso

STATUS_FACTS = frozenset((RunStarted, RunResumed, RunPaused, RunInterrupted, RunQueued, RunEnded))
"""Facts that change the status of a run, or attach or detach its driver."""
SUMMED_FACTS = STATUS_FACTS | {AgentReturned, ScopeWaited}
"""Facts that change more than the number and the time."""


@dataclass(slots=True)
class RunStatus:
    """The status of a run after the events that were applied to it, in order.

    `seconds` is the time with a driver until `since`, when the current driver began, minus waits for people. `last` is
    the time of the latest event with a driver, and `number` the number of the latest event. `parent` is the run of
    which this one is a branch, and `driver` the process that resumed it last, or the server that started it.
    """

    number: int = 0
    team: str = ""
    started: float | None = None
    status: Status | None = None
    stop_reason: StopReason | None = None
    tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0
    since: float | None = None
    last: float | None = None
    conversation: str = ""
    parent: str = ""
    driver: str = ""

    def apply(self, event: Event) -> None:
        """Apply one event; most change only the number and the time."""
        if self.since is None:
            self.since = event.time
        if event.fact.__class__ in SUMMED_FACTS:
            self._apply_fact(event, event.fact)
        self.number = event.number
        if self.status is None:
            self.last = event.time

    def _apply_fact(self, event: Event, fact: Fact) -> None:
        if isinstance(fact, AgentReturned):
            self.tokens += fact.usage.total_tokens
            self.usd = add_usd(self.usd, fact.usage.usd)
        elif isinstance(fact, ScopeWaited) and not event.scope:
            self.seconds -= fact.seconds
        else:
            self._change_status(fact, event.time)

    def _change_status(self, fact: Fact, time: float) -> None:
        match fact:
            case RunStarted():
                self.team, self.started, self.since = fact.team, time, time
                self.conversation, self.parent, self.driver = fact.conversation, fact.parent, fact.driver
            case RunResumed():
                self.seconds, self.since = self._elapsed(self.last), time
                self.status, self.stop_reason, self.driver = None, None, fact.driver
            case RunPaused():
                self.seconds, self.since = self._elapsed(time), time
                self.status, self.stop_reason = "paused", fact.stop_reason
            case RunInterrupted():
                self.seconds, self.since = self._elapsed(time), time
                self.status = "interrupted"
            case RunQueued():
                self.seconds, self.since = self._elapsed(time), time
                self.status = "queued"
            case RunEnded():
                self.seconds, self.since = fact.seconds, time
                self.status, self.stop_reason = fact.status, fact.stop_reason
            case _:
                pass

    def _elapsed(self, until: float | None) -> float:
        return self.seconds + max(0.0, (until or 0.0) - (self.since or 0.0))

    @property
    def settled(self) -> bool:
        """Whether the status holds whether or not a driver is attached."""
        return self.status not in {None, "interrupted"}

    def columns(self) -> tuple[str | float | None, ...]:
        """The values to store, in the order of the fields."""
        return tuple(getattr(self, name) for name in COLUMNS)

    def summary(self, run_id: str, *, driven: bool) -> RunSummary:
        """Return the summary of the run; `driven` (its driver lock is held) tells running from interrupted."""
        return RunSummary(
            id=run_id,
            team=self.team,
            status=self.status if self.status and self.settled else ("running" if driven else "interrupted"),
            stop_reason=self.stop_reason,
            started_at="" if self.started is None else iso(self.started),
            seconds=max(0.0, self._elapsed(self.last)),
            total_tokens=self.tokens,
            usd=self.usd,
            conversation=self.conversation,
            parent=self.parent,
            driver=self.driver,
        )


COLUMNS = tuple(field.name for field in fields(RunStatus))
"""The names of the fields, which are columns of the database."""
