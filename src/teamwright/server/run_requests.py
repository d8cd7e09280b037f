"""What a client asks a run for: its team, its task, its limits and its files.

The team is one of the server's folders, that of a recorded run, or one that a wing forms from a draft. A file comes
with its content, or is one of the run that the new one is to be like. Nothing is started or spent here.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Self

import anyio
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from teamwright.agents.attachments import Attachment
from teamwright.errors import TeamwrightError, UsageError
from teamwright.runtime.recorded.reader import read_record, read_team
from teamwright.runtime.run_request import RunRequest, check_task, read_files
from teamwright.server.credentials import Visitor
from teamwright.server.error_responses import require_run
from teamwright.server.error_statuses import RefusedRequest, refusal_of
from teamwright.server.masked_json import unmasked
from teamwright.server.page.appearance import pictures_of
from teamwright.server.page.projection import stored_artifact
from teamwright.server.state import ServerState
from teamwright.teams.team import Team
from teamwright.values.limits import Limits, SpendForecast, ceiling_of, lowered
from teamwright.values.text.secret_names import HIDDEN
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


async def requested_files(server: ServerState, asked: RequestedRun, team: Team) -> list[Attachment]:
    """Return the files of a request; raises `RefusedRequest` for one that the models of the team can't take."""
    with beside("attachments"):
        found = [await _file(server, asked.like, one) for one in asked.attachments]
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
