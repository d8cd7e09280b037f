"""Forecasts what a run will spend: from past runs of the same team, else from simulated ones. No model is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import anyio
from pydantic import ValidationError

from teamwright.agents.attachments import Attachment
from teamwright.agents.prices_and_tokenizers import rate_of
from teamwright.errors import JournalError, TeamwrightError
from teamwright.history.kpis import Kpis, kpis_of
from teamwright.journal.protocol import Journal
from teamwright.lab.simulation.simulate import Spread
from teamwright.lab.simulation.simulated_agents import Simulator, declared_behaviour
from teamwright.lab.simulation.trials import Trial
from teamwright.runtime.run_request import read_files
from teamwright.teams.team import Team
from teamwright.values.events.run import RunStarted
from teamwright.values.limits import Bounds, ForecastBasis, Limits, Quantiles, Rate, SpendForecast, ceiling_of
from teamwright.values.specs.manifest import AgentSpec, Manifest, Source
from teamwright.values.specs.models import model_key
from teamwright.values.turns.results import RunSummary

TIMEOUT = "timeout"
"""The option of a strategy that ends a team after so many seconds of work."""
ENOUGH_RUNS = 5
"""Past runs from which on a forecast rests on them."""
MOST_RUNS = 30
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
        if len(found) == MOST_RUNS:
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
