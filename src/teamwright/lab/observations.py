"""Reads past runs: as observations for the topology model, and as the measured behaviour of their members.

An observation has the topology and the work of a run, and what it took.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from pydantic import ValidationError

from teamwright.errors import JournalCorrupt, UsageError
from teamwright.history.kpis import TurnFigures, kpis_of, turns_of
from teamwright.journal.protocol import Journal, damaged
from teamwright.lab.simulation.simulated_agents import RIGHT, WRONG, Learnt
from teamwright.lab.simulation.trials import average_tokens, messages_in
from teamwright.lab.topology_model import TOPOLOGY_NAMES, Protocol, Topology
from teamwright.strategies.plan.steps.step_options import STEPS
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event, fold
from teamwright.values.events.run import RunEnded, RunStarted
from teamwright.values.events.team import TeamPlanned, TeamStarted
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.simulation import Behaviour, CallError, Measured, Simulation
from teamwright.values.turns.results import FINAL
from teamwright.values.turns.turn import PASSED, Purpose

MOST_VALUES = 200
"""At most so many values of a distribution are stored, evenly spaced by rank."""
"""Failures that a simulation distinguishes; any other one is an `error`."""


@dataclass(slots=True)
class MemberObservations:
    """The observed turns and calls of one member, or of all."""

    turns: dict[Purpose, list[TurnFigures]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[Purpose, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0

    def add(self, turn: TurnFigures, seconds: float) -> None:
        """Add a turn that succeeded."""
        self.turns[turn.purpose].append(turn)
        self.seconds[turn.purpose].append(seconds)

    def simulation(self) -> Simulation:
        """The behaviour that matches the observations; what was not observed stays unset."""
        given: dict[str, object] = dict(self._behaviour("work"))
        for purpose in ("coordinate", "judge"):
            if self.turns[purpose]:
                given[purpose] = Behaviour.model_validate(self._behaviour(purpose))
        if self.calls:
            given["error"] = {kind: self.failures[kind] / self.calls for kind in get_args(CallError)}
        if (skill := self._skill()) is not None:
            given["skill"] = skill
        return Simulation.model_validate(given)

    def _skill(self) -> float | None:
        """The share of the work that was right: by the verdicts of evaluators, or in a simulation by its own marks."""
        work = self.turns["work"]
        judged = [turn.verdict in PASSED for turn in work if turn.is_judged]
        if not judged:
            marks = Counter(mark for turn in work for mark in turn.marks)
            judged = [True] * marks[RIGHT] + [False] * marks[WRONG]
        return sum(judged) / len(judged) if judged else None

    def _behaviour(self, purpose: Purpose) -> Mapping[str, object]:
        turns = self.turns[purpose]
        if not turns:
            return {}
        return {
            "latency": from_data(self.seconds[purpose]),
            "input": from_data(turn.usage.input_tokens for turn in turns),
            "output": from_data(turn.usage.output_tokens for turn in turns),
        }


def learn(runs: Iterable[Sequence[Event]]) -> Learnt:
    """Learn the behaviour of members from the records of runs."""
    members: dict[str, MemberObservations] = defaultdict(MemberObservations)
    everybody = MemberObservations()
    for events in runs:
        turns, calls = turns_of(events), fold(events, _CallFold())
        for turn in turns:
            for seen in (members[turn.member], everybody):
                seen.failures.update(calls.failures[turn.key])
                seen.calls += calls.made[turn.key]
                if turn.status == "passed" and turn.ended is not None:
                    seen.add(turn, max(0.0, turn.ended - turn.began - calls.lost[turn.key]))
    known = {name: seen.simulation() for name, seen in sorted(members.items()) if any(seen.turns.values())}
    return Learnt(members=known, everybody=everybody.simulation() if known else None)


def from_data(values: Iterable[float]) -> Measured:
    """Values as a distribution, thinned evenly by rank if there are many."""
    ranked = sorted(values)
    if len(ranked) > MOST_VALUES:
        last = len(ranked) - 1
        ranked = [ranked[round(place * last / (MOST_VALUES - 1))] for place in range(MOST_VALUES)]
    return tuple(round(value, 6) for value in ranked)


@dataclass(slots=True)
class _CallFold:
    """Folds the calls of each turn: their number, their failures, and the time lost to failures and queues."""

    made: Counter[str] = field(default_factory=Counter[str])
    failures: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    lost: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _sent: dict[str, float] = field(default_factory=dict[str, float])

    def apply(self, event: Event) -> None:
        """Apply one event; the scope of an effect is its turn."""
        match event.fact:
            case AgentCalled(effect="model", waited=waited):
                self.made[event.scope] += 1
                self.lost[event.scope] += waited
                self._sent[event.key] = event.time
            case AgentReturned():
                self._sent.pop(event.key, None)
            case AgentCallFailed(error=error, retry_in=again) if event.key in self._sent:
                self.failures[event.scope][error if error in get_args(CallError) else "server"] += 1
                self.lost[event.scope] += max(0.0, event.time - self._sent.pop(event.key)) + (again or 0.0)
            case _:
                pass


WHOLE = frozenset(("completed", "degraded"))


@dataclass(frozen=True, slots=True)
class Observation:
    """One run in the terms of the model.

    `average_tokens` and `rounds` are those that its plan declares, if it does. `judged` counts the steps on which an
    evaluator gave a verdict, and `right` those of them that it passed.
    """

    run_id: str
    topology: Topology
    protocol: Protocol
    participants: int
    tasks: int
    average_tokens: int | None
    execution: int
    coordination: int
    messages: int
    cached: int
    steps: int
    passed: int
    seconds: float
    rounds: int | None = None
    whole: bool = True
    judged: int = 0
    right: int = 0

    def with_average(self, tokens: int | None) -> Observation:
        """A copy with another average of tokens per task."""
        return replace(self, average_tokens=tokens)

    def figure(self, name: str) -> float:
        """The measured figure with this name of the model."""
        match name:
            case "execution_tokens":
                return self.execution
            case "coordination_tokens":
                return self.coordination
            case "total_tokens":
                return self.execution + self.coordination - self.cached
            case "pass_rate":
                if self.judged:
                    return self.right / self.judged
                return self.passed / self.steps if self.steps else 0.0
            case _:
                return self.seconds


@dataclass(frozen=True, slots=True)
class Observed:
    """The runs of a topology, the behaviour learnt from all runs, and why some were left out."""

    runs: tuple[Observation, ...]
    learnt: Learnt
    left_out: dict[str, str]


async def observe(journal: Journal, run_ids: Sequence[str], *, as_topology: Topology | None = None) -> Observed:
    """Read runs; with `as_topology`, runs of other strategies count as runs of that topology."""
    found: list[Observation] = []
    records: list[Sequence[Event]] = []
    left_out: dict[str, str] = {}
    for run_id in run_ids:
        events: Sequence[Event] = ()
        try:
            events = await journal.read(run_id)
            found.append(await _observation(journal, run_id, events, as_topology))
        except (UsageError, JournalCorrupt) as error:
            left_out[run_id] = str(error)
        if any(isinstance(event.fact, RunEnded) for event in events):
            records.append(events)
    return Observed(tuple(found), learn(records), left_out)


async def _observation(
    journal: Journal, run_id: str, events: Sequence[Event], as_topology: Topology | None
) -> Observation:
    if not events:
        raise UsageError("it has no events")
    kpis, turns = kpis_of(events), turns_of(events)
    if kpis.status not in FINAL:
        raise UsageError(f"it has not ended ({kpis.status})")
    if not kpis.steps:
        raise UsageError("it has no steps")
    began = next((event.fact for event in events if isinstance(event.fact, TeamStarted)), None)
    ended = next((event.fact for event in reversed(events) if isinstance(event.fact, RunEnded)), None)
    if began is None or ended is None:
        raise UsageError("its record is damaged: the start of its team or its own end is missing")
    topology = _topology(began) or as_topology
    if topology is None:
        raise UsageError(f"its strategy {began.strategy!r} is not a topology; name one with --topology")
    planned = next((event.fact for event in events if isinstance(event.fact, TeamPlanned)), None)
    everybody = {planned.lead, *planned.workers} if planned else {one.member for one in turns if one.purpose != "judge"}
    judged = [turn for turn in turns if turn.is_judged]
    return Observation(
        run_id=run_id,
        topology=topology,
        protocol="a2a_lite" if began.share == "a2a_lite" else "transcript",
        participants=len(everybody - {""}),
        tasks=kpis.steps,
        average_tokens=await _planned(journal, events),
        execution=kpis.work_tokens + kpis.judge_tokens,
        coordination=kpis.coordination_tokens,
        messages=messages_in(kpis, turns),
        cached=ended.usage.cached_tokens,
        steps=kpis.steps,
        passed=kpis.passed,
        seconds=kpis.seconds,
        rounds=planned.rounds if planned else None,
        whole=kpis.status in WHOLE,
        judged=len(judged),
        right=sum(turn.verdict in PASSED for turn in judged),
    )


def _topology(began: TeamStarted) -> Topology | None:
    """The topology of a team: the name of its strategy, or `single` for a team of one."""
    if began.strategy in TOPOLOGY_NAMES:
        return began.strategy
    return "single" if len(set(began.members)) == 1 else None


async def _planned(journal: Journal, events: Sequence[Event]) -> int | None:
    """The average of the tokens that the steps of a recorded team declare; None if they declare none."""
    started = next((event.fact for event in events if isinstance(event.fact, RunStarted)), None)
    if started is None:
        return None
    try:
        source = Source.model_validate_json((await journal.bodies([started.manifest]))[started.manifest])
    except ValidationError as error:
        raise damaged(events[0].run_id, "its manifest can't be read") from error
    team = source.manifest.teams.get(source.team)
    steps = team.options.get(STEPS) if team else None
    return average_tokens(steps) if isinstance(steps, list) else None
