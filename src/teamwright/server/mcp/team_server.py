"""The MCP server over the teams and the journal of a server (extra `mcp`): tools, tasks and resources.

Whatever a client asks for passes `_admit`, which knows the role that each method needs. What goes wrong is the
protocol's own error, in our words. What is recorded of runs are resources: the newest runs, the result and transcript
of each, and its artifacts.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, Field, ValidationError
from starlette.requests import HTTPConnection

from teamwright.errors import RunNotFound, TeamwrightError, UnknownName
from teamwright.server.credentials import OWNER_NAME, Role, Visitor
from teamwright.server.driven_runs import run_id_of
from teamwright.server.error_responses import NotAllowed, NotKnown, require_run
from teamwright.server.error_statuses import INTERNAL, RefusedRequest, refusal_of
from teamwright.server.guard import note_call, note_run
from teamwright.server.masked_json import masked
from teamwright.server.mcp.tasks import EXTENSION, RunTasks
from teamwright.server.mcp.team_tools import (
    INPUT_SCHEMA,
    KEY_META,
    LONGEST_KEY,
    RESULT_TOOL,
    RUN_RESULT,
    SCHEME,
    TeamTools,
    UnknownState,
    tool_error,
)
from teamwright.server.page.projection import list_artifacts, read_artifact
from teamwright.server.state import need
from teamwright.values.text.secrets import mask_text
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.turns.messages import Message

if TYPE_CHECKING:
    from teamwright.server.state import ServerState


Json = dict[str, Any]
LISTED_RUNS = 50
"""The newest runs that are listed."""
JSON, MARKDOWN = "application/json", "text/markdown"
TEMPLATES: list[Json] = [
    {"uriTemplate": f"{SCHEME}/{{run_id}}", "name": "run", "mimeType": JSON, "description": "the result of a run"},
    {
        "uriTemplate": f"{SCHEME}/{{run_id}}/transcript",
        "name": "transcript",
        "mimeType": MARKDOWN,
        "description": "what the members of a run said",
    },
    {
        "uriTemplate": f"{SCHEME}/{{run_id}}/artifacts",
        "name": "artifacts",
        "mimeType": JSON,
        "description": "the files and large texts of a run",
    },
    {
        "uriTemplate": f"{SCHEME}/{{run_id}}/artifacts/{{hash}}",
        "name": "artifact",
        "description": "the content of a file or large text",
    },
]


async def list_resources(server: ServerState) -> list[Json]:
    """Return the list of runs, and the result and transcript of the newest ones."""
    found: list[Json] = [{"uri": SCHEME, "name": "runs", "mimeType": JSON, "description": "the newest runs"}]
    for row in (await server.overview.page(LISTED_RUNS)).rows:
        about = mask_text(f"{row.team}, {row.status}")
        found.append({"uri": f"{SCHEME}/{row.id}", "name": row.id, "mimeType": JSON, "description": about})
        found.append(
            {
                "uri": f"{SCHEME}/{row.id}/transcript",
                "name": f"{row.id} transcript",
                "mimeType": MARKDOWN,
                "description": about,
            }
        )
    return found


async def read_resource(server: ServerState, uri: str) -> Json:
    """Return the content of a resource; raises `RunNotFound` or `UnknownName`."""
    if uri == SCHEME:
        rows = [masked(row.model_dump()) for row in (await server.overview.page(LISTED_RUNS)).rows]
        return _text(uri, JSON, json.dumps(rows))
    if not uri.startswith(f"{SCHEME}/"):
        raise UnknownName("resource", uri, [SCHEME])
    run_id, *rest = uri.removeprefix(f"{SCHEME}/").split("/")
    await require_run(server.engine, run_id)
    match rest:
        case []:
            return _text(uri, JSON, json.dumps(masked((await server.engine.runs.result(run_id)).to_json())))
        case ["transcript"]:
            return _text(uri, MARKDOWN, await _transcript(server, run_id))
        case ["artifacts"]:
            found = [one.to_json() for one in await list_artifacts(server.engine.journal, run_id)]
            return _text(uri, JSON, json.dumps(found))
        case ["artifacts", hash_]:
            return await _artifact(server, uri, run_id, hash_)
        case _:
            raise RunNotFound("/".join([run_id, *rest]))


async def _transcript(server: ServerState, run_id: str) -> str:
    history = await server.engine.runs.history(run_id)

    def paragraph(one: Message) -> str:
        return f"**{one.name}**: {one.content}"

    said = [paragraph(one) for one in history.messages_so_far()]
    return mask_text("\n\n".join([f"# {run_id}", f"**task**: {history.task}", *said]))


async def _artifact(server: ServerState, uri: str, run_id: str, hash_: str) -> Json:
    found, content = await read_artifact(server.engine.journal, run_id, hash_)
    media_type = found.media_type or "application/octet-stream"
    if media_type.startswith("text/") or media_type == JSON:
        return _text(uri, media_type, content.decode(errors="replace"))
    return {"uri": uri, "mimeType": media_type, "blob": b64encode(content).decode()}


def _text(uri: str, media_type: str, text: str) -> Json:
    return {"uri": uri, "mimeType": media_type, "text": text}


Context = ServerRequestContext[Any, HTTPConnection]
FORBIDDEN, REFUSED = -32003, -32004
"""Our codes: the role is too low, and what the journal or a budget refuses. `data.code` names it as elsewhere."""
NOT_FOUND = frozenset((400, 404, 422))
"""The statuses of requests that are wrong in themselves."""
LOCAL_OWNER = Visitor(OWNER_NAME, "admin")
"""Who uses a server over stdio: it is a process of theirs."""
LONGEST_ERROR = 1000
NAME_HEADER = "mcp-name"
LISTED = CacheHint(ttl_ms=5000, scope="private")
"""How long a client may keep a list: a team may change on disk at any time."""
INSTRUCTIONS = (
    "Each tool is a team of agents. A call may take minutes: it is a run, which goes on after its client has left."
    f" If a call returns the id of a run instead of an answer, call {RUN_RESULT} with it."
)


class TaskParams(RequestParams):
    """What each method about a task names."""

    model_config = ConfigDict(populate_by_name=True)
    task_id: str = Field(alias="taskId", min_length=1, max_length=200)


class TaskResponses(TaskParams):
    """Answers to input requests of a task."""

    input_responses: dict[str, Any] = Field(alias="inputResponses")


class ServerCall:
    """One call of a client: who makes it, and the way to tell it what happens meanwhile."""

    def __init__(self, server: TeamServer, context: Context, role: Role) -> None:
        self._server, self._context = server, context
        self._role: Role = role
        declared = context.session.client_capabilities
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.asks_people = (
            is_modern and declared is not None and declared.elicitation is not None and self._may_answer()
        )

    @property
    def visitor(self) -> Visitor:
        """Who calls; raises if the token was revoked meanwhile."""
        return self._server.visitor(self._context, self._role)

    def _may_answer(self) -> bool:
        try:
            self._server.visitor(self._context, "answer")
        except (NotAllowed, NotKnown):
            return False
        return True

    async def report(self, turns: int, text: str) -> None:
        """Send a notification of progress, if the client wants one."""
        await self._context.session.report_progress(turns, message=mask_text(text))

    def started(self, run_id: str) -> None:
        """Name the run in the audit."""
        if self._context.request is not None:
            note_run(self._context.request, run_id)


class TeamServer:
    """Teams as tools, runs as tasks and resources. `protocol` is the server of the protocol, with our handlers."""

    def __init__(self, state: ServerState, owner: Visitor = LOCAL_OWNER) -> None:
        self.state, self.tools, self.tasks = state, TeamTools(state), RunTasks(state)
        self._owner = owner
        self.protocol: Server[Any] = Server(
            "teamwright",
            version=version("teamwright"),
            title="Teamwright",
            instructions=INSTRUCTIONS,
            cache_hints={
                "tools/list": LISTED,
                "resources/list": LISTED,
                "resources/templates/list": LISTED,
                "server/discover": LISTED,
            },
            get_tool_input_schema=self.input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=cast("Any", self._call_tool),  # the protocol's type knows no tasks
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self.protocol.extensions = {EXTENSION: {}}
        self.protocol.middleware.append(self._admit)
        self.protocol.add_request_handler("tasks/get", TaskParams, self._get_task)
        self.protocol.add_request_handler("tasks/update", TaskResponses, self._update_task)
        self.protocol.add_request_handler("tasks/cancel", TaskParams, self._cancel_task)

    async def serve_stdio(self) -> None:
        """Serve one client until it closes stdin; what teams print goes to stderr meanwhile."""
        async with stdio_server() as (reading, writing):
            await self.protocol.run(reading, writing, self.protocol.create_initialization_options())

    def visitor(self, context: Context, role: Role) -> Visitor:
        """Return who sends a request, who has to have this role; over stdio, who started the process."""
        return need(context.request, role) if context.request is not None else self._owner

    def role_of(self, method: str, params: Mapping[str, Any]) -> Role:
        """Return the role that a request needs."""
        match method:
            case "tools/call" if params.get("name") == RUN_RESULT:
                return "answer" if params.get("inputResponses") else "read"
            case "tools/call":
                return "run"
            case "tasks/cancel":
                return "run"
            case "tasks/update":
                return "answer"
            case _:
                return "read"

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments, of which no field travels in a header."""
        return INPUT_SCHEMA

    async def definitions(self) -> list[Json]:
        """Return the definitions of all tools."""
        return [*(one.to_json() for one in await self.tools.all()), RESULT_TOOL]

    async def call(self, context: Context, name: str, arguments: Json) -> Json:
        """Call a tool; raises `MCPError` where there is none, and `TeamwrightError` where it can't work."""
        params = context.params or {}
        call = ServerCall(self, context, self.role_of("tools/call", params))
        given = params.get("inputResponses")
        if name == RUN_RESULT:
            run_id = await self.tools.existing(arguments)
            if given:
                await self.tasks.update(run_id, given, call.visitor)
            return await self.tools.wait(run_id, call)
        if (state := params.get("requestState")) is not None:
            run_id = await self.tools.continued(name, arguments, state)
            call.started(run_id)
            await self.tasks.update(run_id, given or {}, call.visitor)
            return await self.tools.call(run_id, name, arguments, call, has_schema=await self._has_schema(name))
        tool = await self.tools.find(name)
        if tool is None:
            known = ", ".join(one["name"] for one in await self.definitions())
            raise MCPError(INVALID_PARAMS, mask_text(f"There is no tool {name!r:.200}; there are: {known}"))
        key = _key(context)
        known = None if key is None else run_id_of(call.visitor.name, key, "mcp")
        run_id = await self.tools.start(tool, arguments, call, known)
        if takes_tasks(context):
            return await self.tools.answered(run_id, self.tasks.created(run_id))
        return await self.tools.call(run_id, name, arguments, call, has_schema=tool.output_schema is not None)

    async def _has_schema(self, name: str) -> bool:
        """Whether a tool promises data; one whose team is gone, or is being written, no longer does."""
        with suppress(TeamwrightError):
            tool = await self.tools.find(name)
            return tool is not None and tool.output_schema is not None
        return False

    async def _admit(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Pass on what the visitor may do, and word what goes wrong."""
        context, params = ctx, ctx.params or {}
        role = self.role_of(context.method, params)
        if context.request is not None:
            note_call(context.request, context.method, is_reading=role == "read")
        try:
            self.visitor(context, role)
            return await call_next(context)
        except (NotAllowed, NotKnown) as error:
            if context.request is not None:
                context.request.state.refused = True
            text = str(error) or "the token has ended"
            raise MCPError(FORBIDDEN, text, {"code": "forbidden"}) from error
        except TeamwrightError as error:
            raise _protocol_error(refusal_of(error), params) from error
        except RefusedRequest as error:
            raise _protocol_error(error, params) from error
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one.at))} {one.text}" for one in misfits_of(error, dict(params)))
            text = mask_text(f"The params of {context.method!r} do not fit: {wrong}.")
            raise MCPError(INVALID_PARAMS, text[:LONGEST_ERROR]) from error

    async def _list_tools(self, context: Context, params: object) -> ListToolsResult:
        return ListToolsResult.model_validate({"tools": await self.definitions()})

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> Json:
        try:
            return await self.call(context, params.name, params.arguments or {})
        except TeamwrightError as error:
            refusal = refusal_of(error)
        except UnknownState as error:
            raise _protocol_error(error, {}) from error
        except RefusedRequest as error:
            refusal = error
        if (refusal.status, refusal.code) == INTERNAL[:2]:
            raise _protocol_error(refusal, {})
        return tool_error(str(refusal))  # the model that made the call can correct it

    async def _list_resources(self, context: Context, params: object) -> ListResourcesResult:
        return ListResourcesResult.model_validate({"resources": await list_resources(self.state)})

    async def _list_templates(self, context: Context, params: object) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult.model_validate({"resourceTemplates": TEMPLATES})

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return ReadResourceResult.model_validate({"contents": [await read_resource(self.state, str(params.uri))]})

    async def _get_task(self, context: Context, params: TaskParams) -> Json:
        return await self.tasks.get(_task_of(context, params))

    async def _update_task(self, context: Context, params: TaskResponses) -> Json:
        task = _task_of(context, params)
        await self.tasks.update(task, params.input_responses, self.visitor(context, "answer"))
        return {}

    async def _cancel_task(self, context: Context, params: TaskParams) -> Json:
        await self.tasks.cancel(_task_of(context, params), self.visitor(context, "run"))
        return {}


def takes_tasks(context: Context) -> bool:
    """Whether the client of a request has declared that it takes tasks."""
    declared = context.session.client_capabilities
    extensions = None if declared is None else declared.extensions
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in (extensions or {})


def _task_of(context: Context, params: TaskParams) -> str:
    """Return the task that a request names; raises `MCPError` for a client that does not take tasks, or a header that
    names another.
    """
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(METHOD_NOT_FOUND, f"{context.method} needs a later revision of the protocol")
    if not takes_tasks(context):
        required: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"declare the extension {EXTENSION}", required)
    if context.request is not None:
        if context.request.headers.get(NAME_HEADER) != params.task_id:
            raise MCPError(HEADER_MISMATCH, f"the header Mcp-Name has to be the task {params.task_id!r:.200}")
        note_run(context.request, params.task_id)
    return params.task_id


def _key(context: Context) -> str | None:
    """Return what makes two calls the same, if a call names it."""
    meta = cast("Json", context.meta or {})
    key = meta.get(KEY_META)
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY):
        raise MCPError(INVALID_PARAMS, f"{KEY_META} is a text of at most {LONGEST_KEY} characters")
    return key


def _protocol_error(refusal: RefusedRequest, params: Mapping[str, Any]) -> MCPError:
    """Return a refusal as an error of the protocol."""
    code = INVALID_PARAMS if refusal.status in NOT_FOUND else REFUSED
    code = INTERNAL_ERROR if refusal.status == INTERNAL[0] else code
    code = FORBIDDEN if refusal.code == "forbidden" else code
    uri = params.get("uri")
    about = {"uri": uri} if isinstance(uri, str) else {}
    return MCPError(code, mask_text(str(refusal)), {"code": refusal.code, **about})
