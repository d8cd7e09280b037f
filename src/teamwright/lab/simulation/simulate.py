"""Simulates teams: the real engine, strategies and policies on a virtual clock, with simulated members.

The same seed gives the same figures to the last digit. No model or tool is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

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
    in_topology,
)
from teamwright.lab.topology_profiles import Topology, topology_named
from teamwright.teams.team import Team, require_team
from teamwright.values.limits import Limits
from teamwright.values.specs.simulation import Simulation
from teamwright.values.value import Record

REPORT_EVERY = 10

Progress = Callable[[int, int], None]
"""Called with the number of finished runs and the total."""


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
    progress: Progress | None = None,
) -> SimulationReport:
    """Run a team `runs` times with simulated members, as declared and in these topologies.

    `members` is the behaviour of members by name, which overrides the manifest; what is `learnt` from past runs
    overrides both.
    """
    if not 1 <= runs <= MOST_RUNS:
        raise UsageError(f"runs is {runs}, expected a whole number from 1 to {MOST_RUNS}.")
    made = require_team(team)
    shapes, missing = _shapes(made, topologies)
    simulator = Simulator({**declared_behaviour(made), **(members or {})}, learnt or NOTHING_LEARNT)
    trials = [Trial(one, task, seed, simulator, limits) for one in shapes.values()]
    counted = partial(_counted, runs * len(trials), progress)
    figures = [
        summarise(name, trial.team.strategy.name, list(counted(place * runs, trial.runs(range(runs)))))
        for place, (name, trial) in enumerate(zip(shapes, trials, strict=True))
    ]
    return SimulationReport(made.name, task, runs, seed, tuple(figures), missing, _notes(made))


def _counted(total: int, progress: Progress | None, done: int, runs: Iterable[SimulatedRun]) -> Iterator[SimulatedRun]:
    for run in runs:
        yield run
        done += 1
        if progress is not None and (not done % REPORT_EVERY or done == total):
            progress(done, total)


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
