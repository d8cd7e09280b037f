"""The lab: what teams and topologies cost and achieve, computed without calling a model, in processes of its own.

What experiments have found is read from the journal.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from teamwright.errors import UsageError
from teamwright.journal.protocol import Journal
from teamwright.lab.topology_model import BudgetLevel, Degradation, Preference, Protocol, Workload
from teamwright.server.credentials import Visitor
from teamwright.server.error_responses import responses, while_connected
from teamwright.server.masked_json import masked, masked_model
from teamwright.server.state import MAY_READ, Reader, Server, ServerState

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


class ListedReport(BaseModel):
    """The report of an experiment in a list."""

    run_id: str
    title: str
    started_at: str


class ReadReport(BaseModel):
    """The report of an experiment: its figures, and in words what they say."""

    run_id: str
    findings: list[str]
    report: dict[str, JsonValue]


def evaluations_part(_: Journal) -> str:
    """The part of the page's operations that experiments have."""
    return "evaluations"


@router.get("/experiments", responses=responses(), dependencies=[MAY_READ])
async def list_reports(server: Server, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> list[ListedReport]:
    """Return the reports of experiments that are recorded, the newest first."""
    from teamwright.lab.experiments.recorded_evaluations import recorded_reports

    found = await recorded_reports(server.engine.journal, limit)
    return [ListedReport.model_validate(masked(one.to_json())) for one in found]


@router.get("/experiments/{run_id}", responses=responses(404), dependencies=[MAY_READ])
async def read_recorded_report(server: Server, run_id: str) -> ReadReport:
    """Return the report of an experiment: pass rates, costs and comparisons, and each attempt with its run."""
    from teamwright.lab.experiments.recorded_evaluations import read_report
    from teamwright.lab.experiments.report import findings_of

    report = await read_report(server.engine, run_id)
    return masked_model(ReadReport(run_id=run_id, findings=list(findings_of(report)), report=report.to_json()))


@router.post("/evaluate", responses=responses(), dependencies=[MAY_READ])
async def evaluate_topologies(options: EvaluationRequest) -> dict[str, JsonValue]:
    """Compare topologies for a workload: tokens, pass rate, latency, gates and a recommendation."""
    from teamwright.lab.topology_report import evaluate

    return evaluate(**options.model_dump(exclude_none=True)).to_json()


@router.post("/sweep", responses=responses())
async def sweep_dimensions(
    server: Server, request: Request, visitor: Reader, options: SweepRequest
) -> dict[str, JsonValue]:
    """Evaluate every combination of the given values, as rows for heat maps."""
    from teamwright.lab.topology_sweep import sweep_axes

    given = options.model_dump(exclude_none=True)
    cells = sweep_axes(given).cells  # pyright: ignore[reportArgumentType] - checked by the model
    if cells > MOST_CELLS:
        raise UsageError(f"The sweep has {cells} cells, and at most {MOST_CELLS} are served; name fewer values.")
    return await _computed(server, request, visitor, "sweep_parameters", options)


@router.post("/simulate", responses=responses(404))
async def simulate_team(
    server: Server, request: Request, visitor: Reader, wanted: SimulationRequest
) -> dict[str, JsonValue]:
    """Run a team many times with simulated members, as declared and in other topologies."""
    return await _computed(server, request, visitor, "simulate_team", wanted)


@router.post("/plan", responses=responses(404))
async def plan_team(server: Server, request: Request, visitor: Reader, wanted: PlanRequest) -> dict[str, JsonValue]:
    """Schedule the steps of a team before it runs: order, batches, token allotments, critical path and handoffs."""
    return await _computed(server, request, visitor, "schedule_plan", wanted)


@router.post("/advise", responses=responses(404))
async def advise_topology(
    server: Server, request: Request, visitor: Reader, wanted: AdviceRequest
) -> dict[str, JsonValue]:
    """Recommend a topology for the work of a team, with the numbers behind it and how certain it is."""
    return await _computed(server, request, visitor, "advise_team", wanted)


async def _computed(
    server: ServerState, request: Request, visitor: Visitor, job: str, options: BaseModel
) -> dict[str, JsonValue]:
    """Compute in a process of the server's pool as long as the client is there, and mask what looks like a secret."""
    given = options.model_dump(mode="json", exclude_none=job == "sweep_parameters")
    found = await while_connected(request, partial(server.jobs.compute, visitor, f"teamwright.lab.jobs:{job}", given))
    return masked(cast("dict[str, JsonValue]", found))
