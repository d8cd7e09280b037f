"""Simulates teams: the real engine, strategies and policies on a virtual clock, with simulated members.

Runs are distributed over worker processes if that is faster. The same seed gives the same figures to the last digit,
for any number of processes. No model or tool is called.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from math import ceil
from multiprocessing import get_context
from typing import NamedTuple

import msgspec
from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent
from teamwright.errors import UsageError
from teamwright.history.kpis import Kpis
from teamwright.lab.simulation.simulated_agents import NOTHING_LEARNT, Learnt, Simulator, declared_behaviour
from teamwright.lab.simulation.trials import (
    OWN,
    Bottleneck,
    CommonPath,
    SimulatedRun,
    Trial,
    bottleneck,
    common_path,
    declared_team,
    in_topology,
)
from teamwright.lab.topology_profiles import Topology, topology_named
from teamwright.teams.team import Team, require_team
from teamwright.values.limits import Limits
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.simulation import Simulation
from teamwright.values.value import Record, Value

WORTH_A_PROCESS = 1000
"""So many runs take longer than the start of a process."""
CHUNK = 100
"""Runs per task of the pool."""
REPORT_EVERY = 10

Progress = Callable[[int, int], None]
"""Called with the number of finished runs and the total."""


class TrialSpec(Value):
    """A trial as data, so that it can be sent to a worker process."""

    source: Source
    shape: str
    task: str
    seed: int
    declared: dict[str, Simulation]
    learnt: Learnt
    limits: Limits | None = None

    def build(self) -> Trial:
        """Build the trial in this process."""
        team = declared_team(self.source)
        if self.shape != OWN:
            team = in_topology(team, topology_named(self.shape))
        return Trial(team, self.task, self.seed, Simulator(self.declared, self.learnt), self.limits)


class Chunk(NamedTuple):
    """A range of runs of one topology."""

    shape: str
    numbers: range


def simulated_runs(
    trials: Sequence[Trial], shapes: Sequence[str], runs: int, at_once: int | None, progress: Progress | None
) -> dict[str, list[SimulatedRun]]:
    """Simulate the runs of every trial, and return them in order by the name of its topology."""
    total = runs * len(trials)
    report = progress or _ignore
    specs = _specs(trials, shapes)
    width = min(at_once or os.cpu_count() or 1, total // WORTH_A_PROCESS if at_once is None else total)
    if width <= 1 or specs is None:
        return _run_here(trials, shapes, runs, report)
    try:
        return _run_in_pool(specs, runs, width, report)
    except BrokenProcessPool as error:
        raise UsageError(
            "A worker process of the simulation ended early: use a single process (at_once=1, or --at-once 1); a script"
            ' that uses several needs its own statements below `if __name__ == "__main__":`.'
        ) from error


def _run_here(
    trials: Sequence[Trial], shapes: Sequence[str], runs: int, report: Progress
) -> dict[str, list[SimulatedRun]]:
    found: dict[str, list[SimulatedRun]] = {shape: [] for shape in shapes}
    done, total = 0, runs * len(trials)
    for shape, trial in zip(shapes, trials, strict=True):
        for one in trial.runs(range(runs)):
            found[shape].append(one)
            done += 1
            if not done % REPORT_EVERY or done == total:
                report(done, total)
    return found


def _run_in_pool(specs: dict[str, TrialSpec], runs: int, width: int, report: Progress) -> dict[str, list[SimulatedRun]]:
    chunks = [
        Chunk(shape, range(first, min(runs, first + CHUNK))) for shape in specs for first in range(0, runs, CHUNK)
    ]
    found: dict[Chunk, list[SimulatedRun]] = {}
    done, total = 0, runs * len(specs)
    with ProcessPoolExecutor(width, mp_context=get_context("spawn")) as pool:
        texts = {shape: spec.model_dump_json() for shape, spec in specs.items()}
        started: dict[Future[bytes], Chunk] = {
            pool.submit(_run_chunk, texts[chunk.shape], chunk.numbers.start, chunk.numbers.stop): chunk
            for chunk in chunks
        }
        try:
            for future in as_completed(started):
                chunk = started[future]
                found[chunk] = msgspec.json.decode(future.result(), type=list[SimulatedRun])
                done += len(chunk.numbers)
                report(done, total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {shape: list(_in_order(shape, chunks, found)) for shape in specs}


def _in_order(shape: str, chunks: Sequence[Chunk], found: dict[Chunk, list[SimulatedRun]]) -> Iterator[SimulatedRun]:
    for chunk in chunks:
        if chunk.shape == shape:
            yield from found[chunk]


def _run_chunk(spec: str, first: int, stop: int) -> bytes:
    """Simulate a range of runs in a worker process."""
    trial = TrialSpec.model_validate_json(spec).build()
    return msgspec.json.encode(list(trial.runs(range(first, stop))))


def _specs(trials: Sequence[Trial], shapes: Sequence[str]) -> dict[str, TrialSpec] | None:
    """The trials as data; None for a team made in Python, which a worker process could not build."""
    specs: dict[str, TrialSpec] = {}
    for shape, trial in zip(shapes, trials, strict=True):
        source = trials[0].team.declared
        if source is None:
            return None
        specs[shape] = TrialSpec(
            source=source,
            shape=shape,
            task=trial.task,
            seed=trial.seed,
            declared=dict(trial.simulator.declared),
            learnt=trial.simulator.learnt,
            limits=trial.limits,
        )
    return specs


def _ignore(done: int, total: int) -> None:
    """Report nothing."""


MOST_RUNS = 1_000_000
MOST_PROBLEMS = 3


class Spread(Record, frozen=True):
    """How a figure varies over runs: its median, 90th percentile and mean."""

    p50: float
    p90: float
    mean: float

    @classmethod
    def of(cls, values: Iterable[float], digits: int = 2) -> Spread:
        """The spread of these values, by nearest rank."""
        ranked = sorted(values)
        middle, high = ranked[ceil(0.5 * len(ranked)) - 1], ranked[ceil(0.9 * len(ranked)) - 1]
        return cls(p50=round(middle, digits), p90=round(high, digits), mean=round(sum(ranked) / len(ranked), digits))


class SimulatedShape(Record, frozen=True):
    """A team in one topology, over all its simulated runs.

    `pass_rate` is the share of all steps that were completed and right, `completed` the share of runs that completed,
    and `problems` are the most common reasons why the others did not.
    """

    shape: str
    strategy: str
    runs: int
    completed: float
    statuses: dict[str, int]
    problems: dict[str, int]
    pass_rate: float | None
    total_tokens: Spread
    coordination_tokens: Spread
    coordination_ratio: float
    messages: float
    usd: Spread | None
    seconds: Spread
    steps: float
    asks: float
    bottleneck: Bottleneck | None
    critical_path: CommonPath


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """The topologies of one team side by side; `missing` says why a requested topology is not among them."""

    team: str
    task: str
    runs: int
    seed: int
    shapes: tuple[SimulatedShape, ...]
    missing: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def shape(self, name: str) -> SimulatedShape:
        """The figures of the topology with this name."""
        return next(one for one in self.shapes if one.shape == name)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "team": self.team,
            "task": self.task,
            "runs": self.runs,
            "seed": self.seed,
            "shapes": [one.to_json() for one in self.shapes],
            "missing": dict[str, JsonValue](self.missing),
            "notes": list[JsonValue](self.notes),
        }


def simulate(
    team: Agent,
    task: str = "",
    *,
    runs: int = 200,
    seed: int = 0,
    topologies: Sequence[str] = (),
    members: Mapping[str, Simulation] | None = None,
    learnt: Learnt | None = None,
    limits: Limits | None = None,
    at_once: int | None = 1,
    progress: Progress | None = None,
) -> SimulationReport:
    """Run a team `runs` times with simulated members, as declared and in these topologies.

    `members` is the behaviour of members by name, which overrides the manifest; what is `learnt` from past runs
    overrides both. `at_once` is the number of processes, None for as many as speed it up; each of them imports the
    calling script, so a script needs `if __name__ == "__main__":` for more than one.
    """
    if not 1 <= runs <= MOST_RUNS:
        raise UsageError(f"runs is {runs}, expected a whole number from 1 to {MOST_RUNS}.")
    if at_once is not None and at_once < 1:
        raise UsageError(f"at_once is {at_once}; write a whole number of at least 1, or None to choose automatically.")

    made = require_team(team)
    shapes, missing = _shapes(made, topologies)
    simulator = Simulator({**declared_behaviour(made), **(members or {})}, learnt or NOTHING_LEARNT)
    trials = [Trial(one, task, seed, simulator, limits) for one in shapes.values()]
    found = simulated_runs(trials, list(shapes), runs, at_once, progress)
    figures = [summarise(name, one.team.strategy.name, found[name]) for name, one in zip(shapes, trials, strict=True)]
    return SimulationReport(made.name, task, runs, seed, tuple(figures), missing, _notes(made))


def summarise(shape: str, strategy: str, runs: Sequence[SimulatedRun]) -> SimulatedShape:
    """Summarise the figures of many runs."""
    kpis = [one.kpis for one in runs]
    steps = sum(one.steps for one in kpis)
    priced = any(one.usd is not None for one in kpis)
    paths = [one.path for one in runs]
    tokens = sum(one.total_tokens for one in kpis)
    return SimulatedShape(
        shape=shape,
        strategy=strategy,
        runs=len(runs),
        completed=round(sum(one.status == "completed" for one in kpis) / len(kpis), 4),
        statuses=dict(Counter(one.status if one.status == "completed" else _status(one) for one in kpis).most_common()),
        problems=dict(Counter(one.problem for one in runs if one.problem).most_common(MOST_PROBLEMS)),
        pass_rate=round(sum(one.right for one in runs) / steps, 4) if steps else None,
        total_tokens=Spread.of(one.total_tokens for one in kpis),
        coordination_tokens=Spread.of(one.coordination_tokens for one in kpis),
        coordination_ratio=round(sum(one.coordination_tokens for one in kpis) / tokens, 4) if tokens else 0.0,
        messages=round(sum(one.messages for one in runs) / len(runs), 2),
        usd=Spread.of((one.usd or 0.0 for one in kpis), 6) if priced else None,
        seconds=Spread.of(one.seconds for one in kpis),
        steps=round(steps / len(kpis), 2),
        asks=round(sum(one.asks for one in kpis) / len(kpis), 2),
        bottleneck=bottleneck(paths, sum(one.seconds for one in kpis)),
        critical_path=common_path(paths),
    )


def _status(run: Kpis) -> str:
    return f"{run.status} ({run.stop_reason})" if run.stop_reason else run.status


def _shapes(team: Team, topologies: Sequence[str]) -> tuple[dict[str, Team], dict[str, str]]:
    """The team as declared and in each topology that fits it, by name; and why other topologies are missing."""
    shapes: dict[str, Team] = {OWN: team}
    missing: dict[str, str] = {}
    wanted: list[Topology] = [topology_named(one) for one in topologies]
    for name in dict.fromkeys(wanted):
        try:
            shapes[name] = in_topology(team, name)
        except UsageError as error:
            missing[name] = str(error)
    return shapes, missing


def _notes(team: Team) -> tuple[str, ...]:
    """How the simulation differs from a real run of this team."""
    asks = [agent.name for agent in team.everyone() if agent.policy.confirm is not None]
    return (f"approvals of {', '.join(asks)} are granted at once",) if asks else ()
