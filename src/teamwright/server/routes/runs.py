"""Teams, and their runs: forecast, start, fork, list, read, resume, pause, end and delete them.

What a client asks a run for is its team, its task, its limits and its files. The team is one of the server's folders,
that of a recorded run, or one that a wing forms from a draft. A file comes with its content, or is one of the run that
the new one is to be like.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Self
from urllib.parse import quote

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from starlette.requests import HTTPConnection

from teamwright.agents.attachments import Attachment
from teamwright.errors import ConversationBusy, TeamwrightError, UsageError
from teamwright.journal.run_filter import RunFilter, RunOrder
from teamwright.runtime.recorded.reader import deletable_family, read_record, read_team
from teamwright.runtime.run_request import RunRequest, check_task, read_files
from teamwright.server.credentials import Visitor
from teamwright.server.error_responses import require_run, responses
from teamwright.server.error_statuses import RefusedRequest, refusal_of
from teamwright.server.frames import EventProjection
from teamwright.server.guard import note_run
from teamwright.server.masked_json import masked, masked_model, unmasked
from teamwright.server.overview import RunRow
from teamwright.server.page.page_state import pictures_of
from teamwright.server.page.projection import stored_artifact
from teamwright.server.routes.sockets import After
from teamwright.server.state import MAY_ADMIN, MAY_READ, MAY_RUN, FoundRun, Runner, Server, ServerState
from teamwright.teams.team import Team
from teamwright.values.limits import Limits, SpendForecast, ceiling_of, lowered
from teamwright.values.text.secrets import HIDDEN
from teamwright.values.turns.results import FINAL, Status
from teamwright.wings import hooks, required_hook

MOST_FILES = 100
"""Files of one request."""
LONGEST_CONTENT = 16 * 1024 * 1024


class GivenFile(BaseModel):
    """A file of a task: its content in base64, or the hash of a file of the run that the new one is like."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(default="", max_length=255)
    content: str | None = Field(default=None, max_length=LONGEST_CONTENT, description="the content in base64")
    hash: str | None = Field(default=None, max_length=128)

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.content is None) == (self.hash is None):
            raise ValueError("give either the content of a file or its hash")
        return self


class RequestedRun(BaseModel):
    """A task for a team: one of this server, that of a run, or one that is formed from a draft."""

    model_config = ConfigDict(extra="forbid")
    team: str | None = Field(default=None, max_length=200, description="the id of a team of this server")
    like: str | None = Field(default=None, max_length=64, description="a run whose team, as it was recorded, works")
    formed: dict[str, JsonValue] | None = Field(
        default=None, description="the draft of a team of experts, as /api/experts/drafts returns it"
    )
    task: str = Field(min_length=1, max_length=1_000_000)
    limits: Limits | None = None
    attachments: list[GivenFile] = Field(default=[], max_length=MOST_FILES)

    @model_validator(mode="after")
    def _has_one_team(self) -> Self:
        if sum(one is not None for one in (self.team, self.like, self.formed)) != 1:
            raise ValueError("name one team: with team, like or formed")
        return self


def bounded(asked: RunRequest, visitor: Visitor) -> RunRequest:
    """Return a request within what the runs of a visitor may spend, and on the visitor's budget where there is one."""
    limits, budget = bounded_limits(asked.limits, visitor), bounded_budget(asked.budget, visitor)
    return replace(asked, limits=limits, budget=budget)


async def begin_run(
    server: ServerState, asked: RunRequest, visitor: Visitor, request: HTTPConnection | None = None
) -> str:
    """Start a run within what its visitor may spend, name it in the audit line of its request, and return its id.

    A client that leaves meanwhile leaves no run that no one drives.
    """
    run_id = ""
    with anyio.CancelScope(shield=True):
        run_id = (await server.driven.start(bounded(asked, visitor))).run_id
    if request is not None:
        note_run(request, run_id)
    return run_id


def bounded_limits(limits: Limits | None, visitor: Visitor) -> Limits | None:
    """Return limits that are no higher than what each run of a visitor may spend."""
    ceiling = visitor.allowance.ceiling
    return lowered(limits, ceiling) if ceiling else limits


def bounded_budget(budget: str | None, visitor: Visitor) -> str | None:
    """Return the tenant's budget that a run draws on; raises `RefusedRequest` if it is not the visitor's."""
    own = visitor.allowance.budget
    if own and budget not in (None, own):
        raise RefusedRequest(403, "forbidden", f"{visitor.name!r} draws on the budget {own!r} alone")
    return own or budget


def check_raise(limits: Limits, visitor: Visitor) -> None:
    """Raise `RefusedRequest` if limits are higher than what each run of a visitor may spend."""
    for unit, most in visitor.allowance.ceiling.items():
        given = limits.usd if unit == "usd" else limits.tokens
        if given is not None and given > most:
            text = f"the runs of {visitor.name!r} may spend at most {most:g} {unit} each"
            raise RefusedRequest(403, "forbidden", text, {unit: text})


@contextmanager
def beside(field: str) -> Generator[None]:
    """Let an error of the block say which field of the request it is about."""
    try:
        yield
    except TeamwrightError as error:
        refusal = refusal_of(error)
        raise RefusedRequest(refusal.status, refusal.code, str(refusal), {field: str(refusal)}) from error


async def requested_team(server: ServerState, asked: RequestedRun) -> Team:
    """Return the team of a request; raises `RefusedRequest` with why there is none."""
    engine = server.engine
    if asked.like is not None:
        with beside("like"):
            await require_run(engine, asked.like)
            return await read_team(engine.journal, await read_record(engine.journal, asked.like), engine.models)
    if asked.formed is not None:
        with beside("formed"):
            form = required_hook("form_team", "A team of experts")
            return await anyio.to_thread.run_sync(partial(form, server, asked.formed, asked.task))
    with beside("team"):
        return await anyio.to_thread.run_sync(server.catalogue.load, asked.team or "")


async def requested_task(server: ServerState, asked: RequestedRun) -> str:
    """Return the task of a request; of one that was shown masked, with its secrets."""
    with beside("task"):
        check_task(asked.task)
        if asked.like is None or HIDDEN not in asked.task:
            return asked.task
        return str(unmasked(asked.task, (await server.engine.runs.history(asked.like)).task))


async def requested_files(server: ServerState, asked: RequestedRun, team: Team) -> tuple[Attachment, ...]:
    """Return the files of a request; raises `RefusedRequest` for one that the models of the team can't take."""
    with beside("attachments"):
        found = tuple([await _file(server, asked.like, one) for one in asked.attachments])
        if found:
            await read_files(team, found)
        return found


async def _file(server: ServerState, like: str | None, given: GivenFile) -> Attachment:
    if given.content is not None:
        try:
            decode = partial(b64decode, given.content, validate=True)  # megabytes, which would block the event loop
            return Attachment(await anyio.to_thread.run_sync(decode), given.name)
        except ValueError as error:
            raise UsageError(f"The file {given.name!r} is not in base64: {error}.") from error
    if like is None:
        raise UsageError(f"The file {given.name!r} has a hash, and no run that it belongs to: name it with like.")
    found, content = await stored_artifact(server.engine.journal, like, given.hash or "")
    return Attachment(content.encode() if isinstance(content, str) else content, found.name, found.media_type)


async def forecast_of(server: ServerState, asked: RequestedRun) -> SpendForecast:
    """Return what a run would probably spend; without a wing that forecasts, only the ceiling that it can't exceed."""
    team, task = await requested_team(server, asked), await requested_task(server, asked)
    files = await requested_files(server, asked, team)
    for forecast in hooks("forecast"):
        return await forecast(server.engine.journal, team, task, asked.limits, files)
    return SpendForecast(basis="unknown", ceiling=ceiling_of(asked.limits, team.policy.limits))


async def request_of(server: ServerState, run_id: str) -> dict[str, JsonValue]:
    """Return what a run was started with, for another that is to be like it."""
    record = await read_record(server.engine.journal, run_id)
    start, source = record.start, record.source()
    spec = source.manifest.teams.get(source.team)
    members = [source.team] if spec is None else list(spec.members)
    return {
        "run_id": run_id,
        "team": start.team,
        "task": str(record.bodies.value(start.task)),
        "strategy": None if spec is None else spec.strategy,
        "members": pictures_of(source.to_json(), members),
        "limits": {} if start.limits is None else start.limits.to_json(),
        "attachments": [one.to_json() for one in start.attachments],
    }


router = APIRouter(prefix="/api/runs", tags=["runs"])
team_router = APIRouter(prefix="/api/teams", tags=["teams"])
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}},
        "description": "journal events",
    }
}
NEXT = "Teamwright-Next"
"""The header with the run after which the next page of a list begins."""
MOST_TURNS = 100
"""How many of the newest turns of a conversation are listed."""


@team_router.get("", responses=responses(), dependencies=[MAY_READ])
async def list_teams(server: Server) -> list[dict[str, JsonValue]]:
    """Return all teams in the folders of the server; one that can't be loaded says why."""
    return [masked(entry.to_json()) for entry in await anyio.to_thread.run_sync(server.catalogue.entries)]


class NewRun(RequestedRun):
    """A run to be started."""

    run_id: str | None = Field(
        default=None,
        max_length=64,
        description="an id of your own; a run of the same team and task that has it is returned",
    )
    conversation: str | None = Field(default=None, max_length=64)
    continues: str | None = Field(default=None, max_length=64, description="a run that has ended, to go on from")
    budget: str | None = Field(
        default=None,
        max_length=64,
        description="the tenant's budget that the run draws on; it needs a limit of each kind that the budget bounds",
    )


class NewFork(BaseModel):
    """A new run from the record of another one, with something changed; what is unchanged is not paid again."""

    model_config = ConfigDict(extra="forbid")
    at: int | str | None = Field(default=None, description="a checkpoint, its name, or the number of an event")
    retry: bool = Field(default=False, description="go back to just before the member that failed")
    task: str | None = Field(default=None, min_length=1, max_length=1_000_000, description="another task")
    limits: Limits | None = None


class NextTurn(BaseModel):
    """What a person says after the end of a run."""

    model_config = ConfigDict(extra="forbid")
    task: str = Field(min_length=1, max_length=1_000_000)


class DeletedRuns(BaseModel):
    """What was deleted."""

    deleted: list[str]
    freed_bytes: int


class StartedRun(BaseModel):
    """The id of a run that this server drives."""

    run_id: str


@router.get("", responses=responses(404), dependencies=[MAY_READ])
async def list_runs(
    server: Server,
    response: Response,
    *,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str | None, Query(max_length=64, description="the run that the page before ended with")] = None,
    status: Status | None = None,
    team: Annotated[str | None, Query(max_length=200)] = None,
    search: Annotated[str, Query(max_length=200, description="words of its id, team, conversation or task")] = "",
    order: Annotated[RunOrder, Query(description="with a minus sign, the newest or the largest first")] = "-started",
    parent: Annotated[str | None, Query(max_length=64, description="the child runs of this run")] = None,
) -> list[RunRow]:
    """Return a page of the runs that fit, with status, cost and duration; child runs only with `parent`.

    The header `Teamwright-Next` is the `after` of the next page; the last page has none. A page of a search may be
    short, or empty, and have a next one.
    """
    if after is not None:
        await require_run(server.engine, after)
    which = RunFilter(team=team, status=status, after=after, order=order)
    page = await server.overview.page(limit, which, search=search, parent=parent)
    if page.next is not None:
        response.headers[NEXT] = quote(page.next, safe="")
    return [masked_model(row) for row in page.rows]


@router.delete("/{run_id}", responses=responses(404, 409), dependencies=[MAY_ADMIN])
async def delete_run(server: Server, run: FoundRun) -> DeletedRuns:
    """Delete a run that is neither running nor queued for good, with its child runs and all that only they refer to."""
    family = await deletable_family(server.engine.journal, run)
    return DeletedRuns(deleted=list(family), freed_bytes=await server.engine.journal.delete(family))


@router.post("/forecast", responses=responses(404), dependencies=[MAY_RUN])
async def forecast_run(server: Server, work: RequestedRun) -> dict[str, JsonValue]:
    """Return what a run would probably spend, and the ceiling that it can't exceed; nothing is started or spent."""
    return masked((await forecast_of(server, work)).to_json())


@router.post("", status_code=201, responses=responses(404, 409))
async def start_run(server: Server, request: Request, visitor: Runner, new: NewRun) -> StartedRun:
    """Start a run of a team, which this server drives; it is in the journal when this returns.

    The team is one of this server (`team`), that of another run (`like`), or one of experts that is formed for the task
    (`formed`). A `budget` without room for the run is an error with the code `budget`; a `run_id` that belongs to a run
    of another team or task is one with the code `run_exists`.
    """
    team = await requested_team(server, new)
    asked = RunRequest(
        team,
        await requested_task(server, new),
        run_id=new.run_id,
        conversation=new.conversation,
        continues=new.continues,
        limits=new.limits,
        attachments=await requested_files(server, new, team),
        budget=new.budget,
    )
    return StartedRun(run_id=await begin_run(server, asked, visitor, request))


@router.post("/{run_id}/forks", status_code=201, responses=responses(404, 409))
async def fork_run(server: Server, request: Request, visitor: Runner, run: FoundRun, new: NewFork) -> StartedRun:
    """Fork a run with changes; this server drives the new run."""
    task = new.task
    if task is not None and HIDDEN in task:
        task = str(unmasked(task, (await server.engine.runs.history(run.id)).task))
    handle = await server.driven.fork(
        run.id, at=new.at, retry=new.retry, task=task, limits=bounded_limits(new.limits, visitor)
    )
    note_run(request, handle.run_id)
    return StartedRun(run_id=handle.run_id)


@router.post("/{run_id}/turns", status_code=201, responses=responses(404, 409))
async def follow_up(server: Server, request: Request, visitor: Runner, found: FoundRun, new: NextTurn) -> StartedRun:
    """Start the next turn of a run's conversation, with the team of the turn before; this server drives it.

    A run outside of a conversation begins one of its own name.
    """
    engine = server.engine
    name = found.conversation or found.id
    last = await engine.conversations.last(name)
    before = last or found
    if before.status not in FINAL:
        raise ConversationBusy(name, before.id, before.status)
    team = await read_team(engine.journal, await read_record(engine.journal, before.id), engine.models)
    asked = RunRequest(team, new.task, conversation=name, continues=None if last else found.id)
    return StartedRun(run_id=await begin_run(server, asked, visitor, request))


@router.get("/{run_id}", responses=responses(404), dependencies=[MAY_READ])
async def read_run(server: Server, run: FoundRun) -> dict[str, JsonValue]:
    """Return the result of a run, or its present status."""
    return masked((await server.engine.runs.result(run.id)).to_json())


@router.get("/{run_id}/request", responses=responses(404), dependencies=[MAY_READ])
async def read_request(server: Server, run: FoundRun) -> dict[str, JsonValue]:
    """Return what a run was started with, for one that is to be like it: team, members, task, limits and files."""
    return masked(await request_of(server, run.id))


class RelatedRuns(BaseModel):
    """The runs that a run belongs to: its parent, its children, and the turns of its conversation in order."""

    parent: str
    children: list[RunRow]
    turns: list[RunRow]


@router.get("/{run_id}/related", responses=responses(404), dependencies=[MAY_READ])
async def related_runs(server: Server, found: FoundRun) -> RelatedRuns:
    """Return the parent and the child runs of a run, and the other turns of its conversation."""
    journal, row = server.engine.journal, server.overview.row
    turns = await journal.runs(MOST_TURNS, conversation=found.conversation or found.id)
    related = RelatedRuns(
        parent=found.parent,
        children=[await row(one) for one in await journal.children([found.id])],
        turns=[await row(one) for one in reversed(turns)],
    )
    return masked_model(related)


@router.get("/{run_id}/events", responses=EVENTS | responses(404), response_class=Response, dependencies=[MAY_READ])
async def read_events(
    server: Server,
    run: FoundRun,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Response:
    """Return recorded journal events with their texts."""
    events = await server.engine.journal.read(run.id, after, limit)
    frames = await EventProjection(server.engine.journal, run.id).project(events)
    return Response(f"[{','.join(frame.text for frame in frames)}]", media_type="application/json")


@router.post("/{run_id}/resume", status_code=202, responses=responses(404, 409), dependencies=[MAY_RUN])
async def resume_run(server: Server, run: FoundRun) -> StartedRun:
    """Resume a run that was paused or interrupted; this server drives it from now on."""
    await server.driven.resume(run.id)
    return StartedRun(run_id=run.id)


@router.post("/{run_id}/pause", status_code=202, responses=responses(404, 409))
async def pause_run(server: Server, visitor: Runner, run: FoundRun) -> dict[str, JsonValue]:
    """Pause a run after its calls in flight; it goes on with `resume`."""
    return masked((await server.engine.runs.pause(run.id, by=visitor.name, wait=False)).to_json())


class CancelReason(BaseModel):
    """Why a run is ended."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(default="", max_length=1000)


@router.post("/{run_id}/cancel", status_code=202, responses=responses(404, 409))
async def cancel_run(
    server: Server, visitor: Runner, run: FoundRun, given: CancelReason | None = None
) -> dict[str, JsonValue]:
    """End a run for good."""
    reason = given.reason if given is not None else ""
    result = await server.engine.runs.cancel(run.id, reason or f"by {visitor.name}", by=visitor.name, wait=False)
    return masked(result.to_json())
