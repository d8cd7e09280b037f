"""The KPIs of a run of any strategy, computed from its events alone. Pure: no I/O, no clock.

A gate bounds one figure, rounded as it is shown. In a total of several runs, counts, tokens, times and money are added
up, and ratios follow from the sums; it has no percentile. docs/money-and-people/forecasts.md defines what counts as a
step, as coordination and as time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, isfinite, sqrt
from typing import Literal, cast

from teamwright.errors import RunNotFound, UnknownName, UsageError
from teamwright.history.run_record import EFFECTS, RunRecord
from teamwright.journal.protocol import Journal, RunStatus
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.event import Event, fold
from teamwright.values.events.run import PersonAnswered, PersonAsked
from teamwright.values.events.team import (
    StepSkipped,
    TeamEvaluationResult,
    TeamMessageSent,
    TeamPlanned,
    TeamStepFailed,
)
from teamwright.values.run_keys import join_key, without_attempts
from teamwright.values.turns.results import Status, StopReason
from teamwright.values.turns.turn import JUDGED, PASSED, EvaluationVerdict, Purpose, VerdictOutcome
from teamwright.values.usage_and_prices import NOTHING, Cost, Usage, charge_for, dollars, picodollars
from teamwright.values.value import JsonValue, Record

SECONDS_PER_DAY = 86_400
PERCENTILE = 0.95

StepStatus = Literal["passed", "failed", "stopped", "open"]
Bound = Literal["<=", ">="]

DEFAULT = "default"
ON_PASSED = frozenset(("pass_rate", "defect_escape", "passed", "throughput"))
"""The figures that follow from the steps that passed."""
_GATE = re.compile(r"\s*([A-Za-z0-9_]+)\s*(<=|>=)\s*([0-9.eE+_-]+)\s*")
TOTAL = "total"
SUMMED = (
    "steps", "passed", "failed", "stopped", "open", "skipped", "asks", "total_tokens", "work_tokens",
    "coordination_tokens", "judge_tokens", "cached_tokens", "unmetered", "judged",
)  # fmt: skip
WORST: tuple[Status, ...] = (
    "failed", "timeout", "cancelled", "interrupted", "degraded", "paused", "running", "queued", "completed",
)  # fmt: skip
"""All statuses; the first of them that a run has is that of the total."""
DEVIATIONS = 1.96
"""Standard deviations to either side of a mean that hold 95 % of a normal distribution."""


class Kpis(Record, frozen=True):
    """The KPIs of a run: ratios to four decimals, times and throughput to two.

    `steps` counts steps that began, and steps skipped because a step they need failed. `messages` counts messages
    between the members of a topology. `saved_usd` is what prompt caching saved. `unmetered` counts model requests that
    reported no usage, and for which nothing was reserved that could stand for it. `judged` counts passed steps that an
    evaluator passed; a step and its revisions are one step. A figure is None where a run has no data for it.
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
    coordination_ratio: float | None
    p95_latency_s: float | None
    usd: float | None
    cached_tokens: int = 0
    saved_usd: float | None = None
    messages: int | None = None
    unmetered: int = 0
    judged: int = 0

    @property
    def assumed(self) -> int:
        """Passed steps without a verdict of an evaluator."""
        return self.passed - self.judged

    def figure(self, name: str) -> float | None:
        """The figure of this name, one of `FIGURES`; None if it is not known, as the tokens of unmetered requests."""
        return None if self.unmetered and name in METERED else getattr(self, name)

    def to_json(self) -> dict[str, JsonValue]:
        return super().to_json() | {"assumed": self.assumed}


FIGURES = (
    "throughput", "pass_rate", "defect_escape", "total_tokens", "work_tokens", "coordination_tokens", "judge_tokens",
    "coordination_ratio", "p95_latency_s", "seconds", "usd", "cached_tokens", "saved_usd",
    "steps", "passed", "failed", "stopped", "open", "skipped",
    "asks", "messages", "unmetered", "judged", "assumed",
)  # fmt: skip
"""The names of the figures, in display order; a KPI gate may bound any of them."""
METERED = frozenset((
    "total_tokens", "work_tokens", "coordination_tokens", "judge_tokens", "coordination_ratio", "usd", "cached_tokens",
    "saved_usd",
))  # fmt: skip
"""The figures that follow from the usage of requests."""


class TurnFigures(Record, frozen=True):
    """One turn of a leaf member: its place, purpose, times, status and usage. An open turn has no end.

    `verdict` is the outcome of the evaluation of its work, if there was one; a `revised` turn was followed by another
    attempt at the same work.
    """

    key: str
    member: str
    purpose: Purpose
    began: float
    ended: float | None
    status: StepStatus
    usage: Usage = NOTHING
    marks: tuple[str, ...] = ()
    verdict: VerdictOutcome | None = None
    revised: bool = False

    @property
    def is_judged(self) -> bool:
        """Whether this is the last attempt at some work, and an evaluator said whether it is good."""
        return not self.revised and self.verdict in JUDGED


class KpiRow(Record, frozen=True):
    """One figure of several runs, in the order of the runs."""

    figure: str
    values: tuple[float | None, ...]


def side_by_side(runs: Sequence[Kpis]) -> tuple[KpiRow, ...]:
    """Return the figures of several runs as rows, for a table, a plot or a comparison of topologies."""
    return tuple(KpiRow(figure=name, values=tuple(one.figure(name) for one in runs)) for name in FIGURES)


async def read_kpis(journal: Journal, run_id: str) -> Kpis:
    """Return the KPIs of a run in a journal as of now."""
    events = await journal.read(run_id)
    if not events:
        raise RunNotFound(run_id, [summary.id for summary in await journal.runs(200)])
    return kpis_of(events, driven=await journal.is_driven(run_id))


def kpis_of(events: Sequence[Event], *, driven: bool = False) -> Kpis:
    """Compute the KPIs of a run from its events in order; `driven` says whether a driver is attached to it now."""
    reading = fold(events, _KpiFold())
    summary = fold(events, RunStatus()).summary(events[0].run_id, driven=driven)
    counts, used = reading.steps(), reading.used()
    steps = sum(counts.values())
    spent = sum(used.values(), NOTHING)
    total = spent.total_tokens
    talk = min(reading.envelope_tokens(), used["work"].total_tokens)
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
        coordination_ratio=round(coordination / total, 4) if total else None,
        p95_latency_s=reading.p95_latency(),
        usd=spent.usd,
        cached_tokens=spent.cached_tokens,
        saved_usd=spent.saved_usd,
        messages=reading.messages(),
        unmetered=reading.unmetered(),
        judged=reading.judged(),
    )


def turns_of(events: Sequence[Event]) -> tuple[TurnFigures, ...]:
    """Return the turns that the KPIs of a run count, in the order in which they began."""
    return fold(events, _KpiFold()).turn_figures()


@dataclass(slots=True)
class _Ask:
    """One ask: the ask around it, its purpose, its times and its ending."""

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
        """Whether a team asked a member that is no team; asks between agents are no turns."""
        around = self.around
        while around is not None and around.is_team:
            around = around.around
        return not self.is_team and self.around is not None and around is None

    @property
    def status(self) -> StepStatus:
        match self.ended.fact if self.ended else None:
            case None:
                return "open"
            case AgentFailed(error=error):
                return "stopped" if error == "cancelled" else "failed"
            case _:
                return "passed"

    def figures(self) -> TurnFigures:
        fact = self.ended.fact if self.ended else None
        ending = fact if isinstance(fact, AgentReplied | AgentFailed) else None
        return TurnFigures(
            key=self.key,
            member=self.asked.member,
            purpose=self.purpose,
            began=self.begun.time,
            ended=self.ended.time if self.ended else None,
            status=self.status,
            usage=ending.usage if ending else NOTHING,
            marks=ending.tally.marks if ending and ending.tally else (),
        )


class _KpiFold:
    """Collects the asks, usage and messages that the KPIs of a run are computed from."""

    def __init__(self) -> None:
        self._asks: dict[str, _Ask] = {}
        self._used: dict[str, tuple[_Ask | None, Usage]] = {}
        self._reserved: dict[str, AgentCalled] = {}
        self._unmetered: list[_Ask | None] = []
        self._skipped: dict[tuple[str, str], _Ask | None] = {}
        self._questions: dict[str, float] = {}
        self._sent: list[tuple[_Ask | None, int]] = []
        self._planned = False
        self._verdicts: dict[str, EvaluationVerdict] = {}
        self._revised: set[str] = set()
        self._record = RunRecord()

    def apply(self, event: Event) -> None:
        if event.kind in EFFECTS:  # most of a record, and only their times matter here
            self._record.driver_time.apply(event)
        else:
            self._record.apply(event)
        match event.fact:
            case AgentCalled() as fact:
                if fact.effect == "model":
                    self._reserved[event.key] = fact
            case AgentReturned() as fact:
                self._returned(event, fact)
            case AgentCallFailed() as fact:
                if fact.usage.total_tokens:
                    self._used[f"{event.key}#{fact.attempt}"] = (self._around(event.scope), fact.usage)
            case AgentAsked() as fact:
                self._asked(event, fact)
            case AgentReplied() | AgentFailed():
                self._asks[event.key].ended = event
            case PersonAsked():
                self._questions[event.key] = event.time
            case PersonAnswered():
                self._answered(event)
            case _:
                self._apply_team_event(event)

    def turns(self) -> list[_Ask]:
        """The turns of leaf members, without superseded ones."""
        return [ask for ask in self._asks.values() if ask.is_turn and self._counts(ask)]

    def turn_figures(self) -> tuple[TurnFigures, ...]:
        """The turns as public values, with the verdicts on them."""
        found: list[TurnFigures] = []
        for ask in self.turns():
            figures, verdict = ask.figures(), self._verdict(ask)
            if verdict is not None:
                figures = figures.changed(verdict=verdict.outcome, revised=without_attempts(ask.key) in self._revised)
            found.append(figures)
        return tuple(found)

    def steps(self) -> dict[str, int]:
        """Count steps by status; the last attempt at a place decides."""
        counts = {"passed": 0, "failed": 0, "stopped": 0, "open": 0, "skipped": 0}
        for ask in self._steps():
            counts[self._status(ask)] += 1
        counts["skipped"] = sum(1 for around in self._skipped.values() if self._counts(around))
        return counts

    def passed_here(self) -> int:
        """Count the steps that passed in this run, without those that a fork inherited."""
        endings = (ask.ended for ask in self._steps() if self._status(ask) == "passed")
        return sum(1 for ended in endings if ended is not None and ended.number > self._record.inherited)

    def used(self) -> dict[Purpose, Usage]:
        found: dict[Purpose, Usage] = {"work": NOTHING, "coordinate": NOTHING, "judge": NOTHING}
        for ask, usage in self._used.values():
            if self._counts(ask):
                purpose = ask.purpose if ask else "work"
                found[purpose] = found[purpose] + usage
        return found

    def unmetered(self) -> int:
        """Count the model requests whose usage is not known, and nothing was charged in its place."""
        return sum(1 for ask in self._unmetered if self._counts(ask))

    def envelope_tokens(self) -> int:
        """The tokens of work that went into envelopes, those that members read and those that they wrote."""
        replies = (ask.ended.fact for ask in self.turns() if ask.purpose == "work" and ask.ended is not None)
        return sum(
            one.envelope_note.tokens
            for one in replies
            if isinstance(one, AgentReplied) and one.envelope_note is not None
        )

    def messages(self) -> int | None:
        """Count the messages between members of a topology; None without a topology."""
        return sum(count for ask, count in self._sent if self._counts(ask)) if self._planned else None

    def p95_latency(self) -> float | None:
        """The 95th percentile of turn times, by nearest rank; turns that were stopped do not count."""
        times = sorted(
            self._record.driver_time.busy_seconds(ask.begun.time, ask.ended.time, ask.waits)
            for ask in self.turns()
            if ask.ended is not None and ask.status != "stopped"
        )
        return round(times[ceil(PERCENTILE * len(times)) - 1], 2) if times else None

    def judged(self) -> int:
        """Count the steps that an evaluator passed; one whose review broke off is not among them."""
        passed = (ask for ask in self._steps() if self._status(ask) == "passed")
        return sum(1 for ask in passed if (verdict := self._verdict(ask)) is not None and verdict.outcome in PASSED)

    def _steps(self) -> Iterator[_Ask]:
        places = {without_attempts(ask.key): ask for ask in self.turns() if ask.purpose == "work"}
        yield from (ask for place, ask in places.items() if place not in self._revised)

    def _verdict(self, ask: _Ask) -> EvaluationVerdict | None:
        return self._verdicts.get(without_attempts(ask.key))

    def _status(self, ask: _Ask) -> StepStatus:
        """The status of a step; one whose work did not pass its evaluation has failed."""
        verdict = self._verdict(ask)
        return "failed" if ask.status == "passed" and verdict is not None and not verdict.passes else ask.status

    def _counts(self, ask: _Ask | None) -> bool:
        """Whether no fork has superseded this ask or one around it."""
        return ask is None or not self._record.is_superseded(ask.key)

    def _asked(self, event: Event, fact: AgentAsked) -> None:
        around = self._around(event.scope)
        # An ask within a coordinating or judging one has the same purpose.
        purpose = around.purpose if around and around.purpose != "work" else fact.purpose
        self._asks[event.key] = _Ask(event.key, fact, around, purpose, event)

    def _returned(self, event: Event, fact: AgentReturned) -> None:
        """Count the usage of a call; where a model request reports none or a part of it, what was charged."""
        ask, usage = self._around(event.scope), fact.usage
        called = self._reserved.pop(event.key, None)
        if called is not None and (not usage.total_tokens or fact.partial_usage is not None):
            reserved = Cost(called.reserved, picodollars(called.reserved_usd))
            charged = charge_for(usage, reserved, is_partial=fact.partial_usage is not None)
            if charged.tokens:
                usage = usage.changed(
                    input_tokens=charged.tokens - usage.output_tokens,
                    usd=dollars(charged.usd) if charged.usd else usage.usd,
                )
            else:
                self._unmetered.append(ask)
        self._used[event.key] = (ask, usage)

    def _answered(self, event: Event) -> None:
        """Leave the time in which a turn waited for a person out of its latency."""
        ask, since = self._around(event.key), self._questions.pop(event.key, inf)
        if ask is not None and since <= event.time:
            ask.waits.append((since, event.time))

    def _apply_team_event(self, event: Event) -> None:
        """Apply what a team decided: steps, messages, verdicts."""
        match event.fact:
            case TeamPlanned():
                self._planned = True
            case TeamMessageSent() as fact:
                self._sent.append((self._around(event.scope), len(fact.to) * fact.count))
            case TeamEvaluationResult() as fact:
                self._verdicts[join_key(event.scope, fact.work)] = fact.verdict
                if fact.revises:
                    self._revised.add(join_key(event.scope, fact.revises))
            case TeamStepFailed(rung="retry" | "upgrade_model" | "downgrade_model") as fact:
                self._revised.add(join_key(event.scope, fact.work))
            case StepSkipped(reason="failure") as fact:
                self._skipped[event.scope, fact.step] = self._around(event.scope)
            case _:
                pass

    def _around(self, scope: str) -> _Ask | None:
        return self._asks.get(self._record.turn_of(scope))


class KpiGate(Record, frozen=True):
    """A bound on one figure."""

    figure: str
    bound: Bound
    limit: float

    def __str__(self) -> str:
        return f"{self.figure}{self.bound}{self.limit:.10g}"

    def holds(self, value: float | None) -> bool:
        """Whether a value is within the bound; an unknown value is not."""
        if value is None:
            return False
        return value <= self.limit if self.bound == "<=" else value >= self.limit


DEFAULTS = (
    KpiGate(figure="coordination_ratio", bound="<=", limit=0.20),
    KpiGate(figure="pass_rate", bound=">=", limit=0.80),
)


class GateResult(Record, frozen=True):
    """A gate, the value it was checked against, and whether that passed.

    `assumed` counts the steps behind the value without a review, so that they are only assumed to have passed.
    """

    gate: KpiGate
    value: float | None
    passed: bool
    assumed: int = 0

    def to_json(self) -> dict[str, JsonValue]:
        """JSON data, with the gate as its expression."""
        found: dict[str, JsonValue] = {"gate": str(self.gate), "figure": self.gate.figure}
        return found | {"value": self.value, "passed": self.passed, "assumed": self.assumed}

    @property
    def words(self) -> str:
        """The gate, the value and the bound as a sentence."""
        shown = "unknown, since the run has no data for it" if self.value is None else f"{self.value:.10g}"
        shown += f" ({self.assumed} assumed)" if self.assumed else ""
        bound = "may be at most" if self.gate.bound == "<=" else "has to be at least"
        return f"{self.gate}: {self.gate.figure} is {shown}, and {bound} {self.gate.limit:.10g}"


def read_gates(texts: Iterable[str], figures: Collection[str] = FIGURES) -> tuple[KpiGate, ...]:
    """Parse gates on these figures, such as `pass_rate>=0.8`; `default` means the two default gates."""
    found: list[KpiGate] = []
    for text in texts:
        found.extend(DEFAULTS if text.strip() == DEFAULT else [_read(text, figures)])
    return tuple(dict.fromkeys(found))


def check_gates(gates: Sequence[KpiGate], kpis: Kpis) -> tuple[GateResult, ...]:
    """Check the KPIs of a run against gates."""
    return tuple(_checked(gate, kpis) for gate in gates)


def _checked(gate: KpiGate, kpis: Kpis) -> GateResult:
    value = kpis.figure(gate.figure)
    assumed = kpis.assumed if gate.figure in ON_PASSED else 0
    return GateResult(gate=gate, value=value, passed=gate.holds(value), assumed=assumed)


def _read(text: str, figures: Collection[str]) -> KpiGate:
    parts = _GATE.fullmatch(text)
    limit = _number(parts[3]) if parts else None
    if parts is None or limit is None:
        raise UsageError(
            f"{text!r} is no gate: write a figure, <= or >=, and a number, such as  pass_rate>=0.8  (in quotes, since"
            f" the shell reads < and >), or  {DEFAULT}"
        )
    if parts[1] not in figures:
        raise UnknownName("figure", parts[1], figures)
    return KpiGate(figure=parts[1], bound=cast("Bound", parts[2]), limit=limit)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def total_of(runs: Sequence[Kpis]) -> Kpis:
    """Return the KPIs of these runs together; raises `UsageError` without any.

    A fork contains what it inherited, so a run and its fork count that twice.
    """
    if not runs:
        raise UsageError("There is no run to add up.")
    sums: Counter[str] = Counter()
    for run in runs:
        sums.update({name: getattr(run, name) for name in SUMMED})
    seconds = round(sum(run.seconds for run in runs), 2)
    per_day = sum((run.throughput or 0.0) * run.seconds for run in runs)
    pass_rate = round(sums["passed"] / sums["steps"], 4) if sums["steps"] else None
    total, statuses, teams = sums["total_tokens"], {run.status for run in runs}, {run.team for run in runs}
    return Kpis(
        run_id=TOTAL,
        team=teams.pop() if len(teams) == 1 else "",
        status=next(status for status in WORST if status in statuses),
        stop_reason=None,
        seconds=seconds,
        throughput=round(per_day / seconds, 2) if seconds > 0 else None,
        pass_rate=pass_rate,
        defect_escape=None if pass_rate is None else round(1 - pass_rate, 4),
        coordination_ratio=round(sums["coordination_tokens"] / total, 4) if total else None,
        p95_latency_s=None,
        # A price that is not known is never taken for nothing.
        usd=None if any(run.usd is None and run.total_tokens for run in runs) else _sum(run.usd for run in runs),
        saved_usd=_sum(run.saved_usd for run in runs),
        messages=_whole(_sum(run.messages for run in runs)),
        **{name: sums[name] for name in SUMMED},
    )


def _sum(amounts: Iterable[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known), 12) if known else None


def _whole(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def lower_bound(hits: int, n: int) -> float:
    """The lower bound of Wilson's 95 % interval of a share of which `hits` of `n` cases are known."""
    share, square = hits / n, DEVIATIONS**2
    spread = DEVIATIONS * sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, (share + square / (2 * n) - spread) / (1 + square / n))
