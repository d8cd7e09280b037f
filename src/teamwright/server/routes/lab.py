"""The lab: what teams and topologies cost and achieve, computed without calling a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import anyio
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from teamwright.errors import UsageError
from teamwright.planning.topology.profiles import BudgetLevel, Degradation, Preference, Protocol, Workload
from teamwright.server.errors import responses
from teamwright.server.security.access import MAY_READ, Server
from teamwright.server.security.masked_json import masked

router = APIRouter(prefix="/api/lab", tags=["lab"])
MOST_CELLS = 20_000
Few = Field(min_length=1, max_length=4)
Topologies = Annotated[list[str], Field(max_length=4)]
Counts = Annotated[list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=1, max_length=50)]


class LabOptions(BaseModel):
    """The options of the lab; those that are left out have their default values."""

    model_config = ConfigDict(extra="forbid")
    recommend: Preference | None = None
    topologies: Topologies | None = None
    max_coordination_ratio: float | None = Field(default=None, ge=0, le=1)
    min_pass_rate: float | None = Field(default=None, ge=0, le=1)
    max_p95_latency: float | None = Field(default=None, gt=0, le=1_000_000)


class EvaluationRequest(LabOptions):
    """Topologies to be compared for a workload."""

    budget: BudgetLevel | None = None
    workload: Workload | None = None
    protocol: Protocol | None = None
    degradation: Degradation | None = None
    tasks: int | None = Field(default=None, ge=1, le=1_000_000)
    avg_task_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    coordination_rounds: int | None = Field(default=None, ge=0, le=1000)


class SweepRequest(LabOptions):
    """Values of several dimensions, of which every combination is evaluated."""

    budgets: Annotated[list[BudgetLevel], Few] | None = None
    workloads: Annotated[list[Workload], Few] | None = None
    protocols: Annotated[list[Protocol], Few] | None = None
    degradations: Annotated[list[Degradation], Few] | None = None
    tasks: Counts | None = None
    avg_task_tokens: Counts | None = None
    coordination_rounds: Counts | None = None


class SimulationRequest(BaseModel):
    """A team of this server, to be simulated."""

    model_config = ConfigDict(extra="forbid")
    team: str = Field(max_length=200)
    task: str = Field(default="", max_length=100_000)
    runs: int = Field(default=50, ge=1, le=200)
    seed: int = Field(default=0, ge=0, le=2**32)
    topologies: Topologies = []


class PlanRequest(BaseModel):
    """A team of this server whose strategy has steps, to be scheduled."""

    model_config = ConfigDict(extra="forbid")
    team: str = Field(max_length=200)
    task: str = Field(default="", max_length=100_000)


class AdviceRequest(BaseModel):
    """A team of this server and its work, for which a topology is wanted."""

    model_config = ConfigDict(extra="forbid")
    team: str = Field(max_length=200)
    task: str = Field(default="", max_length=100_000)
    workload: Workload = "mixed"
    budget: BudgetLevel | None = None
    divisible: float | None = Field(default=None, ge=0, le=1)
    recommend: Literal["balanced", "cost", "quality"] = "balanced"


@router.post("/evaluate", responses=responses(), dependencies=[MAY_READ])
async def evaluate_topologies(options: EvaluationRequest) -> dict[str, JsonValue]:
    """Compare topologies for a workload: tokens, pass rate, latency, gates and a recommendation."""
    from teamwright.lab.evaluation.report import evaluate

    return evaluate(**options.model_dump(exclude_none=True)).to_json()


@router.post("/sweep", responses=responses(), dependencies=[MAY_READ])
async def sweep_dimensions(server: Server, options: SweepRequest) -> dict[str, JsonValue]:
    """Evaluate every combination of the given values, as rows for heat maps."""
    from teamwright.lab.parameter_sweep.sweep import sweep, sweep_axes

    given = options.model_dump(exclude_none=True)
    cells = sweep_axes(given).cells  # pyright: ignore[reportArgumentType] - checked by the model
    if cells > MOST_CELLS:
        raise UsageError(f"The sweep has {cells} cells, and at most {MOST_CELLS} are served; name fewer values.")
    return await _computed(server, lambda: sweep(**given).to_json())


@router.post("/simulate", responses=responses(404), dependencies=[MAY_READ])
async def simulate_team(server: Server, wanted: SimulationRequest) -> dict[str, JsonValue]:
    """Run a team many times with simulated members, as declared and in other topologies."""
    from teamwright.lab.simulation.simulate import simulate

    team = await anyio.to_thread.run_sync(server.catalogue.load, wanted.team)
    work = partial(simulate, team, wanted.task, runs=wanted.runs, seed=wanted.seed, topologies=wanted.topologies)
    return await _computed(server, lambda: work().to_json())


@router.post("/plan", responses=responses(404), dependencies=[MAY_READ])
async def plan_team(server: Server, wanted: PlanRequest) -> dict[str, JsonValue]:
    """Schedule the steps of a team before it runs: order, batches, token allotments, critical path and handoffs."""
    from teamwright.lab.simulation.topologies import spec_of
    from teamwright.planning.plan_bundle import prepare
    from teamwright.teams.plan_preview import preview_plan

    team = await anyio.to_thread.run_sync(server.catalogue.load, wanted.team)
    plan, settings = preview_plan(wanted.team, spec_of(team), wanted.task or None)
    return await _computed(server, lambda: prepare(plan, settings).to_json())


@router.post("/advise", responses=responses(404), dependencies=[MAY_READ])
async def advise_topology(server: Server, wanted: AdviceRequest) -> dict[str, JsonValue]:
    """Recommend a topology for the work of a team, with the numbers behind it and how certain it is."""
    from teamwright.lab.calibration.advise import advise

    team = await anyio.to_thread.run_sync(server.catalogue.load, wanted.team)
    options = wanted.model_dump(exclude={"team", "task"})
    return await _computed(server, lambda: advise(team, wanted.task, **options).to_json())


async def _computed(server: Server, work: Callable[[], dict[str, JsonValue]]) -> dict[str, JsonValue]:
    """Compute in one of the few threads of the lab, and mask what looks like a secret."""
    return masked(await anyio.to_thread.run_sync(work, limiter=server.lab_threads))
