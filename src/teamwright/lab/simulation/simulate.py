"""Simulates teams: the real engine, strategies and policies on a virtual clock, with simulated members.

The same seed gives the same figures to the last digit. No model or tool is called. What a run will spend is forecast
from past runs of the same team, else from simulated ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import cast

import anyio
from pydantic import JsonValue, ValidationError

from teamwright.agents.agent import Agent
from teamwright.agents.attachments import Attachment
from teamwright.agents.prices import rate_of
from teamwright.errors import JournalError, TeamwrightError, UsageError
from teamwright.history.kpis import Kpis, kpis_of
from teamwright.journal.protocol import Journal
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
from teamwright.lab.topology_model import Topology, topology_named
from teamwright.runtime.run_request import read_files
from teamwright.teams.team import Team, require_team
from teamwright.values.events.run import RunStarted
from teamwright.values.limits import Bounds, ForecastBasis, Limits, Quantiles, SpendForecast, ceiling_of
from teamwright.values.specs.manifest import AgentSpec, Manifest, Source
from teamwright.values.specs.models import model_key
from teamwright.values.specs.simulation import Simulation
from teamwright.values.turns.results import RunSummary
from teamwright.values.usage_and_prices import Rate
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


TIMEOUT = "timeout"
"""The option of a strategy that ends a team after so many seconds of work."""
ENOUGH_RUNS = 5
"""Past runs from which on a forecast rests on them."""
MOST_PAST_RUNS = 30
"""The newest past runs that count; older ones say less about the next."""
MOST_SUMMARIES = 500
SIMULATED_RUNS = 100
FEWEST_SIMULATED = 5
MOST_SIMULATED_ASKS = 1000
"""The asks of all simulated runs together, so that a forecast for a large team takes a second or two."""

TeamShape = tuple[object, ...]
"""What makes two declarations the same team: names, strategies, members and models."""


async def forecast_run(
    journal: Journal, team: Team, task: str, limits: Limits | None = None, files: Sequence[Attachment] = ()
) -> SpendForecast:
    """Forecast a run of a team on a task with files under these limits, and name the ceiling that it can't exceed.

    What past runs spent says little about a task with files, which every prompt may contain.
    """
    past = () if files else await _past_runs(journal, team)
    if len(past) >= ENOUGH_RUNS:
        return _forecast(team, "runs", past, limits)
    simulated: Sequence[Kpis] = ()
    with suppress(TeamwrightError):  # a strategy of the user may need what virtual time does not have
        every = await read_files(team, files)
        simulated = await anyio.to_thread.run_sync(partial(_simulate, team, task, limits, every))
    if all(run.status == "failed" for run in simulated):
        return SpendForecast(basis="unknown", ceiling=_ceiling(team, limits))
    return _forecast(team, "simulation", simulated, limits)


def _forecast(team: Team, basis: ForecastBasis, runs: Sequence[Kpis], limits: Limits | None) -> SpendForecast:
    return SpendForecast(
        basis=basis,
        runs=len(runs),
        tokens=_quantiles(one.total_tokens for one in runs),
        usd=_quantiles((one.usd or 0.0 for one in runs), digits=6) if _has_known_prices(team) else None,
        asks=_quantiles(one.asks for one in runs),
        ceiling=_ceiling(team, limits),
    )


def _ceiling(team: Team, limits: Limits | None) -> Bounds:
    """Return the limits of a run; where none on time is set for it, with the timeout that its strategy has."""
    options = team.strategy.options
    if options is None or TIMEOUT not in options.model_fields or (limits is not None and limits.seconds is not None):
        return ceiling_of(limits, team.policy.limits)
    seconds = cast("float", dict(options.model_validate(team.settings.options))[TIMEOUT])
    return ceiling_of(limits, team.policy.limits, Limits(seconds=seconds))


def _quantiles(values: Iterable[float], digits: int = 2) -> Quantiles:
    spread = Spread.of(values, digits)
    return Quantiles(p50=spread.p50, p90=spread.p90)


def _has_known_prices(team: Team) -> bool:
    """Whether the price of every model of the team is known; what uses no model costs nothing."""
    specs = (agent.spec for agent in team.everyone() if agent.kind != "team")
    declared = (model for spec in specs if isinstance(spec, AgentSpec) for model in (spec.model, spec.stronger))
    models = [model for model in declared if model is not None]
    rates: list[Rate | None] = [rate_of(model, 1) for model in models]
    return None not in rates


def _simulate(team: Team, task: str, limits: Limits | None, files: Sequence[Attachment]) -> list[Kpis]:
    """Simulate runs of a team: as many as are useful and cheap."""
    trial = Trial(team, task, 0, Simulator(declared_behaviour(team)), limits, files)
    runs = (one.kpis for one in trial.runs(range(SIMULATED_RUNS)))
    return list(_within_bound(runs))


def _within_bound(runs: Iterable[Kpis]) -> Iterator[Kpis]:
    asks = 0
    for number, run in enumerate(runs, start=1):
        yield run
        asks += run.asks
        if number >= FEWEST_SIMULATED and asks >= MOST_SIMULATED_ASKS:
            return


async def _past_runs(journal: Journal, team: Team) -> list[Kpis]:
    """The newest runs of the same team that ended by themselves; one that a limit stopped does not show its need."""
    wanted, shapes = _shape_of(team.source), dict[str, TeamShape | None]()
    found: list[Kpis] = []
    for summary in await journal.top_runs(MOST_SUMMARIES):
        if len(found) == MOST_PAST_RUNS:
            break
        if summary.team == team.name and _is_whole(summary):
            try:
                started = (await journal.read(summary.id, limit=1))[0].fact
                if isinstance(started, RunStarted) and await _recorded_shape(journal, started, shapes) == wanted:
                    found.append(kpis_of(await journal.read(summary.id)))
            except (JournalError, IndexError):  # damaged, or deleted just now
                continue
    return found


def _is_whole(run: RunSummary) -> bool:
    return run.damage is None and (run.status, run.stop_reason) in {
        ("completed", "done"),
        ("completed", "terminated"),
        ("completed", "max_turns"),
        ("degraded", "done"),
    }


async def _recorded_shape(
    journal: Journal, started: RunStarted, known: dict[str, TeamShape | None]
) -> TeamShape | None:
    """The shape of the team that a run recorded; `None` for a fork, which did not pay for all of its work."""
    if started.origin is not None and started.origin.how == "fork":
        return None
    if started.manifest not in known:
        text = (await journal.bodies([started.manifest]))[started.manifest]
        try:
            known[started.manifest] = _shape_of(Source.model_validate_json(text))
        except ValidationError:
            known[started.manifest] = None
    return known[started.manifest]


def _shape_of(source: Source) -> TeamShape:
    manifest = source.manifest
    teams = {name: (spec.strategy, spec.members, spec.share, spec.max_turns) for name, spec in manifest.teams.items()}
    agents = {name: _model_name(manifest, spec) for name, spec in manifest.agents.items()}
    return (source.team, tuple(sorted(teams.items())), tuple(sorted(agents.items())))


def _model_name(manifest: Manifest, spec: AgentSpec) -> str:
    """The name of an agent's model; its function where it has none."""
    if spec.model is None:
        return spec.function or ""
    model = manifest.models.get(spec.model, spec.model) if isinstance(spec.model, str) else spec.model
    return model_key(model)
