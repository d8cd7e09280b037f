"""Reads past runs as observations for the topology model: their topology, their work, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from teamwright.errors import JournalCorrupt, UsageError
from teamwright.history.kpis import kpis_of, turns_of
from teamwright.journal.protocol import Journal, damaged
from teamwright.lab.calibration.behaviour import learn
from teamwright.lab.simulation.agents import Learnt
from teamwright.lab.simulation.topologies import average_tokens
from teamwright.lab.simulation.trials import messages_in
from teamwright.lab.topology.profiles import TOPOLOGY_NAMES, Protocol, Topology
from teamwright.strategies.plan.step_options import STEPS
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded, RunStarted
from teamwright.values.events.team import TeamPlanned, TeamStarted
from teamwright.values.results import FINAL
from teamwright.values.specs.manifest import Source
from teamwright.values.verdicts import PASSED

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
        raise UsageError(f"its strategy {began.strategy!r} is not a topology; name one with --as")
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
