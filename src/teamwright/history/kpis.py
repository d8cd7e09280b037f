"""The figures of a run, read from its events alone, for any strategy. Pure: it asks nobody and changes nothing.

What counts as a step, as coordination and as time is explained once, in docs/kpis.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any, ClassVar, Literal

from teamwright.errors import RunNotFound
from teamwright.history.record.run_record import EFFECTS, RunRecord
from teamwright.journal.protocol import Journal
from teamwright.journal.run_status import RunStatus
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.events.person import PersonAnswered, PersonAsked
from teamwright.values.events.step import StepSkipped
from teamwright.values.events.team import TeamPlanned, TeamTold
from teamwright.values.key import without_attempts
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.models import JsonValue, Record
from teamwright.values.results import Status, StopReason
from teamwright.values.turns.turn import Purpose

SECONDS_PER_DAY = 86_400
PERCENTILE = 0.95

Came = Literal["passed", "failed", "stopped", "open"]


class Kpis(Record, frozen=True):
    """What a run came to in figures: ratios to four decimals, times and throughput to two.

    `steps` are all that were begun, and those skipped since they stood on a failed one. `messages` are those that
    members of a topology told each other. A figure is None where there is nothing to make it of.
    """

    run_id: str
    team: str
    status: Status
    stop_reason: StopReason | None
    seconds: float
    steps: int
    passed: int
    failed: int
    stopped: int
    open: int
    skipped: int
    asks: int
    throughput: float | None
    pass_rate: float | None
    defect_escape: float | None
    total_tokens: int
    work_tokens: int
    coordination_tokens: int
    judge_tokens: int
    coordination_ratio: float
    p95_latency_s: float | None
    usd: float | None
    messages: int | None = None

    @property
    def assumed(self) -> int:
        """How many of the passed steps nobody judged: all, since nothing judges yet."""
        return self.passed

    def figure(self, name: str) -> float | None:
        """The figure of this name, one of `FIGURES`."""
        return getattr(self, name)

    def to_json(self) -> dict[str, JsonValue]:
        """All of it as data."""
        return super().to_json() | {"assumed": self.assumed}


FIGURES = (
    "throughput", "pass_rate", "defect_escape", "total_tokens", "work_tokens", "coordination_tokens", "judge_tokens",
    "coordination_ratio", "p95_latency_s", "seconds", "usd", "steps", "passed", "failed", "stopped", "open", "skipped",
    "asks", "messages",
)  # fmt: skip
"""What has a number: in the order in which it is shown, and what a gate may look at."""


class TurnFigures(Record, frozen=True):
    """One turn of a leaf member: where, to what end, when, and what came of it. An open one has no end."""

    key: str
    member: str
    purpose: Purpose
    began: float
    ended: float | None
    came: Came
    usage: Usage = NOTHING
    marks: tuple[str, ...] = ()


class KpiRow(Record, frozen=True):
    """One figure of several runs, in the order of the runs."""

    figure: str
    values: tuple[float | None, ...]


def side_by_side(runs: Sequence[Kpis]) -> tuple[KpiRow, ...]:
    """The figures of several runs as rows: for a table, a plot or a comparison of topologies."""
    return tuple(KpiRow(figure=name, values=tuple(one.figure(name) for one in runs)) for name in FIGURES)


async def read_kpis(journal: Journal, run_id: str) -> Kpis:
    """The figures of a run in a journal, as it stands now."""
    events = await journal.read(run_id)
    if not events:
        raise RunNotFound(run_id, [summary.id for summary in await journal.runs(200)])
    return kpis_of(events, driven=await journal.is_driven(run_id))


def kpis_of(events: Sequence[Event], *, driven: bool = False) -> Kpis:
    """The figures of a run from its events, the first one first; `driven` tells a running from an interrupted one."""
    reading = fold(events, _KpiFold())
    summary = fold(events, RunStatus()).summary(events[0].run_id, driven=driven)
    counts, used = reading.steps(), reading.used()
    steps = sum(counts.values())
    total = sum(one.total_tokens for one in used.values())
    talk = min(reading.handed_over(), used["work"].total_tokens)
    coordination = used["coordinate"].total_tokens + talk
    done = reading.passed_here()
    pass_rate = round(counts["passed"] / steps, 4) if steps else None
    return Kpis(
        run_id=summary.id,
        team=summary.team,
        status=summary.status,
        stop_reason=summary.stop_reason,
        seconds=round(summary.seconds, 2),
        steps=steps,
        passed=counts["passed"],
        failed=counts["failed"],
        stopped=counts["stopped"],
        open=counts["open"],
        skipped=counts["skipped"],
        asks=len(reading.turns()),
        throughput=round(done / summary.seconds * SECONDS_PER_DAY, 2) if summary.seconds > 0 else None,
        pass_rate=pass_rate,
        defect_escape=None if pass_rate is None else round(1 - pass_rate, 4),
        total_tokens=total,
        work_tokens=used["work"].total_tokens - talk,
        coordination_tokens=coordination,
        judge_tokens=used["judge"].total_tokens,
        coordination_ratio=round(coordination / total, 4) if total else 0.0,
        p95_latency_s=reading.p95(),
        usd=sum(used.values(), NOTHING).usd,
        messages=reading.messages(),
    )


def turns_of(events: Sequence[Event]) -> tuple[TurnFigures, ...]:
    """The turns that the figures of a run are made of, in the order in which they began."""
    return tuple(ask.figures() for ask in fold(events, _KpiFold()).turns())


@dataclass(slots=True)
class _Ask:
    """One ask: by whom, to what end, how long it took and what came of it."""

    key: str
    asked: AgentAsked
    around: _Ask | None
    purpose: Purpose
    begun: Event
    ended: Event | None = None
    waits: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def is_team(self) -> bool:
        return self.asked.member_kind == "team"

    @property
    def is_turn(self) -> bool:
        """Whether a team asked one of its members, and that is no team; what agents ask each other is their affair."""
        around = self.around
        while around is not None and around.is_team:
            around = around.around
        return not self.is_team and self.around is not None and around is None

    @property
    def came(self) -> Came:
        match self.ended.fact if self.ended else None:
            case None:
                return "open"
            case AgentFailed(error=error):
                return "stopped" if error == "cancelled" else "failed"
            case _:
                return "passed"

    def figures(self) -> TurnFigures:
        """The same for readers outside."""
        fact = self.ended.fact if self.ended else None
        ending = fact if isinstance(fact, AgentReplied | AgentFailed) else None
        return TurnFigures(
            key=self.key,
            member=self.asked.member,
            purpose=self.purpose,
            began=self.begun.time,
            ended=self.ended.time if self.ended else None,
            came=self.came,
            usage=ending.usage if ending else NOTHING,
            marks=ending.tally.marks if ending and ending.tally else (),
        )


class _KpiFold:
    """What the figures of a run are computed from."""

    def __init__(self) -> None:
        self._asks: dict[str, _Ask] = {}
        self._used: dict[str, tuple[_Ask | None, Usage]] = {}
        self._skipped: dict[tuple[str, str], _Ask | None] = {}
        self._questions: dict[str, float] = {}
        self._told: list[tuple[_Ask | None, int]] = []
        self._planned = False
        self._record = RunRecord()

    def apply(self, event: Event) -> None:
        """Apply one event."""
        if event.kind in EFFECTS:  # of these only the time matters here, and they are most of a record
            self._record.driver_time.apply(event)
        else:
            self._record.apply(event)
        if handle := self._handlers.get(type(event.fact)):
            handle(self, event, event.fact)

    def turns(self) -> list[_Ask]:
        """The turns of leaf members that count."""
        return [ask for ask in self._asks.values() if ask.is_turn and self._counts(ask)]

    def steps(self) -> dict[str, int]:
        """How many steps came to what; of several attempts at a place the last one says it."""
        counts = {"passed": 0, "failed": 0, "stopped": 0, "open": 0, "skipped": 0}
        for ask in self._steps():
            counts[ask.came] += 1
        counts["skipped"] = sum(1 for around in self._skipped.values() if self._counts(around))
        return counts

    def passed_here(self) -> int:
        """How many steps passed in the run's own time, and not in that of the run it was forked from."""
        endings = (ask.ended for ask in self._steps() if ask.came == "passed")
        return sum(1 for ended in endings if ended is not None and ended.number > self._record.inherited)

    def used(self) -> dict[Purpose, Usage]:
        """What all effects have used, by what they were for."""
        found: dict[Purpose, Usage] = {"work": NOTHING, "coordinate": NOTHING, "judge": NOTHING}
        for ask, usage in self._used.values():
            if self._counts(ask):
                purpose = ask.purpose if ask else "work"
                found[purpose] = found[purpose] + usage
        return found

    def handed_over(self) -> int:
        """What of the work went into envelopes, those that members were told and those that they wrote."""
        replies = (ask.ended.fact for ask in self.turns() if ask.purpose == "work" and ask.ended is not None)
        return sum(one.handoff.tokens for one in replies if isinstance(one, AgentReplied) and one.handoff is not None)

    def messages(self) -> int | None:
        """How many messages members told each other, where their team works through a plan in a shape of its own."""
        return sum(count for ask, count in self._told if self._counts(ask)) if self._planned else None

    def p95(self) -> float | None:
        """The time within which 95 of 100 turns ended, by nearest rank; those that others cut short say nothing."""
        times = sorted(
            self._record.driver_time.busy(ask.begun.time, ask.ended.time, ask.waits)
            for ask in self.turns()
            if ask.ended is not None and ask.came != "stopped"
        )
        return round(times[ceil(PERCENTILE * len(times)) - 1], 2) if times else None

    def _steps(self) -> Iterator[_Ask]:
        places = {without_attempts(ask.key): ask for ask in self.turns() if ask.purpose == "work"}
        yield from places.values()

    def _counts(self, ask: _Ask | None) -> bool:
        """Whether neither this nor what it belongs to was asked anew by a fork."""
        return ask is None or not self._record.is_superseded(ask.key)

    def _asked(self, event: Event, fact: AgentAsked) -> None:
        around = self._around(event.scope)
        # What is done for somebody who coordinates or judges serves the same end.
        purpose = around.purpose if around and around.purpose != "work" else fact.purpose
        self._asks[event.key] = _Ask(event.key, fact, around, purpose, event)

    def _ended(self, event: Event, fact: AgentReplied | AgentFailed) -> None:
        self._asks[event.key].ended = event

    def _returned(self, event: Event, fact: AgentReturned) -> None:
        self._used[event.key] = (self._around(event.scope), fact.usage)

    def _skip(self, event: Event, fact: StepSkipped) -> None:
        if fact.reason == "failure":
            self._skipped[event.scope, fact.step] = self._around(event.scope)

    def _plan(self, event: Event, fact: TeamPlanned) -> None:
        self._planned = True

    def _tell(self, event: Event, fact: TeamTold) -> None:
        self._told.append((self._around(event.scope), len(fact.to) * fact.count))

    def _person_asked(self, event: Event, fact: PersonAsked) -> None:
        self._questions[event.key] = event.time

    def _person_answered(self, event: Event, fact: PersonAnswered) -> None:
        ask, since = self._around(event.key), self._questions.pop(event.key, inf)
        if ask is not None and since <= event.time:
            ask.waits.append((since, event.time))

    def _around(self, scope: str) -> _Ask | None:
        """The ask that a scope belongs to."""
        return self._asks.get(self._record.turn_of(scope))

    _handlers: ClassVar[dict[type[object], Callable[[_KpiFold, Event, Any], None]]] = {
        AgentAsked: _asked,
        AgentReplied: _ended,
        AgentFailed: _ended,
        AgentReturned: _returned,
        StepSkipped: _skip,
        TeamPlanned: _plan,
        TeamTold: _tell,
        PersonAsked: _person_asked,
        PersonAnswered: _person_answered,
    }
    """How each kind of fact is read; no other changes a figure."""
