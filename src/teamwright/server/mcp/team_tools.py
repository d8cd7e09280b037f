"""The teams of a server as tools, the results of their runs, and the tool that returns the result of a run.

A call of a team is a run, whose id the server chose, within what its token may spend. A client that can't wait for the
end gets the run's id before it gives up, and the run goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from teamwright.errors import UsageError
from teamwright.runtime.run_request import RunRequest
from teamwright.server.error_responses import require_run
from teamwright.server.error_statuses import RefusedRequest
from teamwright.server.event_feeds import STOPS, TooSlow
from teamwright.server.masked_json import masked
from teamwright.server.page.projection import list_artifacts
from teamwright.server.questions import input_request
from teamwright.server.routes.runs import (
    MOST_FILES,
    GivenFile,
    RequestedRun,
    begin_run,
    requested_files,
    requested_task,
)
from teamwright.values.text.secrets import mask_text
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import FINAL

if TYPE_CHECKING:
    from teamwright.server.credentials import Visitor
    from teamwright.server.overview import WaitingQuestion
    from teamwright.server.state import ServerState
    from teamwright.teams.team import Team
    from teamwright.values.turns.results import RunResult


Json = dict[str, Any]
INTERNAL_ERROR = -32603
"""JSON-RPC's code for a failure of the server itself."""
RUN_META, STATUS_META = "teamwright/run", "teamwright/status"
"""What the `_meta` of a result names: the run, and its status."""
SCHEME = "teamwright://runs"
RUN_RESULT = "run_result"
"""The tool that returns the result of a run."""


def text_block(text: str) -> Json:
    """Return a text as content of a result, with secrets masked."""
    return {"type": "text", "text": mask_text(text)}


def tool_error(text: str) -> Json:
    """Return the result of a call that failed, in words for the model that made it."""
    return {"resultType": "complete", "content": [text_block(text)], "isError": True}


def is_crash(result: RunResult) -> bool:
    """Whether code of the team broke; every other failure is one that its caller can do something about."""
    return result.status == "failed" and result.failure is not None and result.failure.error == "crash"


async def tool_result(server: ServerState, result: RunResult) -> Json:
    """Return the result of a run that has ended: the answer, its data, and links to its files.

    A run without an answer is an error of the tool, with what it had so far.
    """
    meta: Json = {RUN_META: result.run_id, STATUS_META: result.status}
    if result.output_kind != "answer":
        reason = result.failure.message if result.failure is not None else result.stop_reason
        content = [text_block(f"The run {result.run_id!r} is {result.status}: {reason}")]
        if result.output:
            content.append(text_block(f"What it had so far:\n\n{result.output}"))
        return {"resultType": "complete", "content": content, "isError": True, "_meta": meta}
    content = [text_block(result.output or ""), *await _links(server, result.run_id)]
    found: Json = {"resultType": "complete", "content": content, "isError": False}
    if isinstance(result.data, dict):
        found["structuredContent"] = masked(result.data)
    if result.warnings:
        meta["teamwright/warnings"] = [mask_text(one) for one in result.warnings]
    return {**found, "_meta": meta}


async def _links(server: ServerState, run_id: str) -> list[Json]:
    return [
        {
            "type": "resource_link",
            "uri": f"{SCHEME}/{run_id}/artifacts/{one.hash}",
            "name": mask_text(one.name or one.hash),
            "mimeType": one.media_type,
        }
        for one in await list_artifacts(server.engine.journal, run_id)
    ]


def goes_on(run_id: str, why: str, *, has_schema: bool) -> Json:
    """Return the answer to a client that could not wait any longer. Its run goes on.

    A tool that promises data can't say so as a success: clients check the data of every success.
    """
    text = f"The run {run_id!r} {why}. Call the tool {RUN_RESULT!r} with run_id={run_id!r} for its result."
    meta = {RUN_META: run_id, STATUS_META: "running"}
    return {"resultType": "complete", "content": [text_block(text)], "isError": has_schema, "_meta": meta}


def input_required(waiting: list[WaitingQuestion], state: str | None) -> Json:
    """Return the questions of a run to a client that asks people; it makes the call again with what they answered."""
    asked: Json = {"resultType": "input_required", "inputRequests": {one.key: input_request(one) for one in waiting}}
    return asked if state is None else {**asked, "requestState": state}


def waits_for_person(run_id: str, waiting: list[WaitingQuestion], *, has_schema: bool) -> Json:
    """Return the answer to a client whose run waits for a person, with the questions."""
    asked = "; ".join(one.text for one in waiting)
    return goes_on(run_id, f"waits for a person ({asked})", has_schema=has_schema)


Arguments = TypeVar("Arguments", bound=BaseModel)
WAIT_SECONDS = 45.0
"""How long a call waits for the end of its run: clients give up after a minute, and can't say so before."""
KEY_META = "teamwright/idempotency-key"
"""What the `_meta` of a call names so that the same call again finds its run."""
LONGEST_KEY = 255
LONGEST_ID = 200
LONGEST_NAME = 128
NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]")
"""What the name of a tool can't contain."""
FILES_TEXT = "files for the task"
INPUT_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "what the team shall do", "minLength": 1},
        "files": {
            "type": "array",
            "description": FILES_TEXT,
            "maxItems": MOST_FILES,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 255},
                    "content": {"type": "string", "description": "the content in base64"},
                },
                "required": ["name", "content"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["task"],
    "additionalProperties": False,
}
RESULT_SCHEMA: Json = {
    "type": "object",
    "properties": {"run_id": {"type": "string", "description": "the id that a call of a team has returned"}},
    "required": ["run_id"],
    "additionalProperties": False,
}
RESULT_TOOL: Json = {
    "name": RUN_RESULT,
    "title": "Result of a run",
    "description": "Waits for a run that a call of a team has started, and returns its result, or that it goes on.",
    "inputSchema": RESULT_SCHEMA,
    "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
}


class TaskArguments(BaseModel):
    """The arguments of a team's tool."""

    model_config = ConfigDict(extra="forbid")
    task: str = Field(min_length=1, max_length=1_000_000)
    files: list[GivenFile] = Field(default=[], max_length=MOST_FILES)


class ResultArguments(BaseModel):
    """The arguments of `run_result`."""

    model_config = ConfigDict(extra="forbid")
    run_id: str = Field(min_length=1, max_length=LONGEST_ID)


class Caller(Protocol):
    """Who calls a tool, and how to tell it what happens meanwhile."""

    asks_people: bool
    """Whether questions of a run can be put to the people who use it."""

    @property
    def visitor(self) -> Visitor:
        """Who calls, also later: raises if the right was lost meanwhile."""
        ...

    async def report(self, turns: int, text: str) -> None:
        """Report progress."""
        ...

    def started(self, run_id: str) -> None:
        """Note the run that the call has started."""
        ...


@dataclass(frozen=True, slots=True)
class TeamTool:
    """A team as a tool."""

    name: str
    id: str
    team: Team

    @property
    def output_schema(self) -> Json | None:
        """The schema of the team's data, where it is one of objects: earlier revisions know no other."""
        schema = self.team.output_schema
        return dict(schema) if schema is not None and schema.get("type") == "object" else None

    def to_json(self) -> Json:
        """The definition of the tool."""
        members = ", ".join(one.name for one in self.team.members)
        found: Json = {
            "name": self.name,
            "title": self.team.name,
            "description": mask_text(self.team.description or f"The team {self.team.name} of {members}."),
            "inputSchema": INPUT_SCHEMA,
            "annotations": {"readOnlyHint": False, "openWorldHint": True},
        }
        schema = self.output_schema
        return found if schema is None else {**found, "outputSchema": schema}


class TeamTools:
    """The tools of a server: a team each, and `run_result`."""

    def __init__(self, server: ServerState) -> None:
        self._server = server

    async def all(self) -> list[TeamTool]:
        """Return the teams that can be loaded."""
        entries = await anyio.to_thread.run_sync(self._server.catalogue.entries)
        names = tool_names([one.id for one in entries])
        return [TeamTool(names[one.id], one.id, one.team) for one in entries if one.team is not None]

    async def find(self, name: str) -> TeamTool | None:
        """Return the team with a tool's name; raises what makes it unloadable."""
        ids = await anyio.to_thread.run_sync(self._server.catalogue.ids)
        id_ = next((id_ for id_, one in tool_names(ids).items() if one == name), None)
        if id_ is None:
            return None
        return TeamTool(name, id_, await anyio.to_thread.run_sync(self._server.catalogue.load, id_))

    async def start(self, tool: TeamTool, arguments: Json, caller: Caller, run_id: str | None = None) -> str:
        """Start the run of a call, or find the one with an id, which has the same team and task; returns its id."""
        given = read_arguments(TaskArguments, tool.name, arguments)
        asked = RequestedRun(team=tool.id, task=given.task, attachments=given.files)
        request = RunRequest(
            tool.team,
            await requested_task(self._server, asked),
            run_id=run_id,
            attachments=await requested_files(self._server, asked, tool.team),
        )
        started = await begin_run(self._server, request, caller.visitor)
        caller.started(started)
        return started

    async def existing(self, arguments: Json) -> str:
        """Return the run that a call of `run_result` names; raises `RunNotFound`."""
        run_id = read_arguments(ResultArguments, RUN_RESULT, arguments).run_id
        return (await require_run(self._server.engine, run_id)).id

    async def continued(self, name: str, arguments: Json, state: str) -> str:
        """Return the run of a call that is made again with answers, whatever its team has become meanwhile.

        Raises `UnknownState` for a state that belongs to no call of this tool with this task.
        """
        task = read_arguments(TaskArguments, name, arguments).task
        run_id = state.partition(" ")[0][:LONGEST_ID]
        if state != request_state(run_id, name, task) or await self._server.engine.runs.find(run_id) is None:
            raise UnknownState(
                f"The requestState belongs to no call of {name!r:.200} with this task; make the call anew."
            )
        return run_id

    async def call(self, run_id: str, name: str, arguments: Json, caller: Caller, *, has_schema: bool) -> Json:
        """Wait for a run that a call has started."""
        state = request_state(run_id, name, arguments["task"])
        return await self.answered(run_id, self.wait(run_id, caller, state=state, has_schema=has_schema))

    async def answered(self, run_id: str, answer: Awaitable[Json]) -> Json:
        """Return an answer about a run that a call has started; it ends if its client leaves, as that of a chat."""
        server = self._server
        run = server.awaited.enter(run_id, is_kept=False, is_retry=True)
        run.run_id, is_answered = run_id, False
        try:
            result = await answer
            is_answered = True
            return result
        finally:
            run.is_kept = run.is_kept or is_answered
            server.awaited.leave(run, answered=is_answered)

    async def wait(self, run_id: str, caller: Caller, *, state: str | None = None, has_schema: bool = False) -> Json:
        """Wait until a run has ended or waits for a person, or the client would give up."""
        server = self._server
        with anyio.move_on_after(WAIT_SECONDS):
            await self._follow(run_id, caller)
        caller.visitor  # noqa: B018 - raises if the token was revoked meanwhile
        summary = await require_run(server.engine, run_id)
        if summary.status in FINAL:
            return await tool_result(server, await server.engine.runs.result(run_id))
        if waiting := await server.inbox.open_questions(summary):
            if caller.asks_people:
                return input_required(waiting, state)
            return waits_for_person(run_id, waiting, has_schema=has_schema)
        why = "waits until the server is back" if server.feeds.is_closing else f"goes on ({summary.status})"
        return goes_on(run_id, why, has_schema=has_schema)

    async def _follow(self, run_id: str, caller: Caller) -> None:
        """Report who works, until the run has stopped; a client that is too slow misses the rest."""
        server, turns = self._server, 0
        async with server.feeds.follow(run_id, form="events") as feed:
            try:
                while (frames := await feed.next()) is not None:
                    for frame in frames:
                        if frame.kind == "agent.asked" and (item := json.loads(frame.text))["member_kind"] != "team":
                            turns += 1
                            await caller.report(turns, f"{item['member']} works")
                    has_stopped = any(frame.kind in STOPS for frame in frames)
                    if has_stopped and not server.driven.goes_on(await require_run(server.engine, run_id)):
                        return
                    caller.visitor  # noqa: B018 - raises if the token was revoked meanwhile
            except TooSlow:
                await server.driven.wait(run_id)


class UnknownState(RefusedRequest):
    """A state that no call was answered with."""

    def __init__(self, text: str) -> None:
        super().__init__(422, "unknown_state", text)


def request_state(run_id: str, name: str, task: str) -> str:
    """Return what a client sends back with its answers: the run, and what makes the call the same."""
    return f"{run_id} {digest(name, task)}"


def tool_names(ids: list[str]) -> dict[str, str]:
    """Return the names of teams as tools, each once; a team never hides `run_result`."""
    found: dict[str, str] = {}
    for id_ in ids:
        name = NOT_IN_NAME.sub("_", id_)[: LONGEST_NAME - 4] or "team"
        taken = {RUN_RESULT, *found.values()}
        suffixes = ("", *(f"-{number}" for number in range(2, len(ids) + 3)))
        found[id_] = next(name + suffix for suffix in suffixes if name + suffix not in taken)
    return found


def read_arguments(model: type[Arguments], name: str, arguments: Json) -> Arguments:
    """Return the arguments of a call; raises `UsageError` with every mistake."""
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, one.at))} {one.text}" for one in misfits_of(error, arguments))
        raise UsageError(f"The tool {name!r} can't take these arguments: {found}.") from error
