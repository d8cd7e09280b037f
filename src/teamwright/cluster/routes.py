"""A cluster for clients of the server: its state, and runs that workers on other machines drive.

The journal must be in Postgres.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from teamwright.errors import UnknownName, UsageError
from teamwright.server.error_responses import responses
from teamwright.server.frames import RecentBodies
from teamwright.server.guard import note_run
from teamwright.server.masked_json import masked
from teamwright.server.routes.runs import bounded_budget, bounded_limits
from teamwright.server.state import MAY_ADMIN, MAY_READ, Runner, Server
from teamwright.values.limits import Limits

if TYPE_CHECKING:
    from teamwright.journal.postgres.journal import PostgresJournal
    from teamwright.journal.protocol import Journal

router = APIRouter(prefix="/api", tags=["cluster"])
YEAR = 366 * 86_400.0
MOST_SET_ASIDE = 20
"""How many of the runs that no worker could drive are named."""


class QueuedRun(BaseModel):
    """A run to be put into a queue."""

    model_config = ConfigDict(extra="forbid")
    team: str = Field(max_length=200, description="the id of a team of this server")
    task: str = Field(min_length=1, max_length=1_000_000)
    limits: Limits | None = None
    run_id: str | None = Field(
        default=None,
        max_length=64,
        description="an id of your own; a run of this team and task that has it is left as it is",
    )
    priority: int = Field(default=0, ge=-999_999, le=999_999, description="runs with a higher number start first")
    after: float = Field(default=0.0, ge=0, le=YEAR, allow_inf_nan=False, description="seconds before it starts")
    budget: str | None = Field(default=None, max_length=64, description="the tenant's budget that the run draws on")


class SubmittedRun(BaseModel):
    """A run in a queue; `is_new` says whether this request has put it there."""

    run_id: str
    queue: str
    is_new: bool


@router.post("/queues/{queue}/runs", status_code=202, responses=responses(404, 409))
async def submit_run(server: Server, request: Request, visitor: Runner, queue: str, new: QueuedRun) -> SubmittedRun:
    """Put a run of a team into a queue, from which any worker takes it; it is in the journal when this returns.

    The files that the manifest names travel with the run; code must be installed on the workers. A `run_id` that
    belongs to a run of another team or task is an error with the code `run_exists`.
    """
    journal = _cluster_journal(server.engine.journal)
    from teamwright.cluster.queue_client import opened_queue
    from teamwright.cluster.queue_database import check_own_queue
    from teamwright.cluster.submission import prepare_team
    from teamwright.runtime.recorded.identity import require_same_run

    check_own_queue(queue)
    team = await anyio.to_thread.run_sync(server.catalogue.load, new.team)
    assert team.declared is not None  # the catalogue loads manifests
    prepared = await anyio.to_thread.run_sync(prepare_team, team.declared, server.engine.models)
    batch = await server.engine.enqueue(
        prepared.team,
        new.task,
        queue=queue,
        run_id=new.run_id,
        limits=bounded_limits(new.limits, visitor),
        budget=bounded_budget(new.budget, visitor),
        files=prepared.files,
        starts=round(await journal.cluster.now() + new.after, 3) if new.after else None,
    )
    async with opened_queue(journal.address) as client:
        is_new = await client.submit(batch, queue, priority=new.priority, delay=new.after)
    if not is_new:
        await require_same_run(journal, batch)
    note_run(request, batch.run_id)
    return SubmittedRun(run_id=batch.run_id, queue=queue, is_new=is_new)


@router.get("/cluster", responses=responses(), dependencies=[MAY_READ])
async def read_cluster(server: Server) -> dict[str, JsonValue]:
    """Return the workers, queues, schedules and budgets of tenants, and the runs that no worker could drive."""
    journal = _cluster_journal(server.engine.journal)
    from teamwright.cluster.queue_client import opened_queue
    from teamwright.cluster.status import read_set_aside, read_status, schedule_json
    from teamwright.runtime.budget.tenant_budgets import TenantBudgets

    async with opened_queue(journal.address) as client:
        found = await read_status(journal, client)
        if found.parked:
            found = replace(found, set_aside=(await read_set_aside(client))[:MOST_SET_ASIDE])
    await TenantBudgets(journal).settle_ended()
    budgets: list[JsonValue] = [one.to_json() for one in await journal.budgets.all()]
    schedules: list[JsonValue] = [schedule_json(one) for one in await journal.cluster.schedules.list()]
    return masked({**found.to_json(), "schedules": schedules, "budgets": budgets})


class RemovedSchedule(BaseModel):
    """A schedule that was removed."""

    removed: str


@router.delete("/cluster/schedules/{name}", responses=responses(404), dependencies=[MAY_ADMIN])
async def remove_schedule(server: Server, name: str) -> RemovedSchedule:
    """Remove a schedule; runs that it has started go on."""
    schedules = _cluster_journal(server.engine.journal).cluster.schedules
    known = [one.name for one in await schedules.list()]
    if name not in known or not await schedules.remove(name):
        raise UnknownName("schedule", name, known)
    return RemovedSchedule(removed=name)


def cluster_part(journal: Journal) -> str | None:
    """The part of the page's operations that a journal in Postgres has."""
    return "cluster" if _postgres_journal(journal) is not None else None


def _cluster_journal(journal: Journal) -> PostgresJournal:
    """The journal in Postgres of an engine; raises `UsageError` if it is another one."""
    found = _postgres_journal(journal)
    if found is None:
        raise UsageError("This server has no queues: they need a journal in Postgres, and its journal is a file.")
    return found


def _postgres_journal(journal: Journal) -> PostgresJournal | None:
    inner = journal.wrapped if isinstance(journal, RecentBodies) else journal
    try:
        from teamwright.journal.postgres.journal import PostgresJournal
    except ModuleNotFoundError:
        return None
    return inner if isinstance(inner, PostgresJournal) else None
