"""The report of a what-if: the figures of a recorded run and of its members beside those they would have had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from teamwright.budget.ledger import refusal_text
from teamwright.history.history import RunHistory
from teamwright.history.kpis import kpis_of, turns_of
from teamwright.lab.replay.changes import RunChanges
from teamwright.lab.replay.recorded_turns import RecordedTurn
from teamwright.values.events.agent import AgentReturned
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded, ScopeExpired
from teamwright.values.key import next_attempt
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.models import Record
from teamwright.values.results import Status, StopReason


class RunFigures(Record, frozen=True):
    """What a run or one of its members took; `usd` is `None` where no price is known."""

    asks: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0


class Compared(Record, frozen=True):
    """The figures of the recorded run, or of a member in it, beside those that it would have had."""

    recorded: RunFigures
    what_if: RunFigures
    exact: bool


class WhatIfStop(Record, frozen=True):
    """Where a limit would have stopped the run: the turn, its member, and the reason."""

    key: str
    member: str
    why: str
    exact: bool


class WhatIfReport(Record, frozen=True):
    """A recorded run and what it would have been. An estimate has `exact` false, and `notes` say why.

    `status` is `None` if the run would have gone on beyond its record.
    """

    run_id: str
    team: str
    changes: dict[str, JsonValue]
    recorded_status: Status
    recorded_stop_reason: StopReason | None
    status: Status | None
    stop_reason: StopReason | None
    stopped: WhatIfStop | None
    total: Compared
    members: dict[str, Compared]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OtherRun:
    """The events of the other run, and how sure its figures are."""

    events: list[Event]
    estimated: bool
    left_record: bool = False
    notes: tuple[str, ...] = ()

    def with_notes(self, notes: Iterable[str]) -> OtherRun:
        """The other run as an estimate for further reasons, if there are any."""
        more = tuple(notes)
        return OtherRun(self.events, self.estimated or bool(more), self.left_record, (*more, *self.notes))


def make_report(
    history: RunHistory, changes: RunChanges, turns: Sequence[RecordedTurn], other_run: OtherRun
) -> WhatIfReport:
    """Compare the figures of a recorded run with those of another one."""
    before, after = kpis_of(history.events), kpis_of(other_run.events)
    exact = not other_run.estimated and not other_run.left_record
    untouched = _untouched(turns, changes) if changes.topology is None else frozenset[str]()
    recorded, other = _member_figures(history.events), _member_figures(other_run.events)
    members = {
        name: Compared(
            recorded=recorded.get(name, RunFigures()),
            what_if=other.get(name, RunFigures()),
            exact=exact or (name in untouched and _is_same_work(recorded.get(name), other.get(name))),
        )
        for name in dict.fromkeys((*recorded, *other))
    }
    total = Compared(
        recorded=_total(history.events, before.asks, before.seconds),
        what_if=_total(other_run.events, after.asks, _seconds(other_run, after.seconds)),
        exact=exact,
    )
    return WhatIfReport(
        run_id=history.events[0].run_id,
        team=history.started.team,
        changes=changes.to_json(),
        recorded_status=before.status,
        recorded_stop_reason=before.stop_reason,
        status=None if other_run.left_record else after.status,
        stop_reason=None if other_run.left_record else after.stop_reason,
        stopped=_stop(other_run.events, exact=exact),
        total=total,
        members=members,
        notes=other_run.notes,
    )


def _is_same_work(one: RunFigures | None, other: RunFigures | None) -> bool:
    """Whether a member did the same in both runs; in the recorded one it may have taken longer by its overhead."""
    return one is not None and other is not None and one.changed(seconds=0.0) == other.changed(seconds=0.0)


def _untouched(turns: Sequence[RecordedTurn], changes: RunChanges) -> frozenset[str]:
    """The members whose turns all began before the first one of a member with another model."""
    names = [turn.member for turn in turns]
    first = next((place for place, name in enumerate(names) if name in changes.models), len(names))
    return frozenset(names[:first]).difference(names[first:])


def _member_figures(events: Sequence[Event]) -> dict[str, RunFigures]:
    usage: dict[str, Usage] = {}
    asks: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for turn in turns_of(events):
        name = turn.member
        usage[name] = usage.get(name, NOTHING) + turn.usage
        asks[name] = asks.get(name, 0) + 1
        if turn.ended is not None:
            seconds[name] = seconds.get(name, 0.0) + turn.ended - turn.began
    return {name: _figures(usage[name], asks[name], seconds.get(name, 0.0)) for name in usage}


def _figures(usage: Usage, asks: int, seconds: float) -> RunFigures:
    return RunFigures(
        asks=asks,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        usd=usage.usd,
        seconds=round(seconds, 3),
    )


def _total(events: Sequence[Event], asks: int, seconds: float) -> RunFigures:
    """The figures of a whole run: its usage as its end records it, else that of its calls so far."""
    calls = {event.key: event.fact.usage for event in events if isinstance(event.fact, AgentReturned)}
    ended = next((event.fact.usage for event in reversed(events) if isinstance(event.fact, RunEnded)), None)
    return _figures(sum(calls.values(), NOTHING) if ended is None else ended, asks, seconds)


def _seconds(other_run: OtherRun, seconds: float) -> float:
    """The time of the other run; of one that waits for what was never recorded, until its last event before that."""
    if not other_run.left_record:
        return seconds
    first, *_ = other_run.events
    return (
        max((turn.ended or turn.began) - first.time for turn in turns_of(other_run.events))
        if len(other_run.events) > 1
        else 0.0
    )


def _stop(events: Sequence[Event], *, exact: bool) -> WhatIfStop | None:
    """Where the first limit stopped the run; a refused turn that was made again with less stopped nothing."""
    members = {turn.key: turn.member for turn in turns_of(events)}
    for event in events:
        match event.fact:
            case BudgetRefused() if next_attempt(event.scope) in members:
                pass
            case BudgetRefused(level=level, what=what, needed=needed, left=left, limit=limit, kept=kept, why=counted):
                member = members.get(event.scope, "")
                why = refusal_text(level, what, needed, left, limit, kept, counted)
                return WhatIfStop(key=event.scope, member=member, why=why, exact=exact)
            case ScopeExpired(seconds=seconds):
                return WhatIfStop(
                    key=event.key, member=members.get(event.key, ""), why=f"{seconds:g} seconds passed", exact=exact
                )
            case _:
                pass
    return None
