"""The addresses of agents: their cards, JSON-RPC at one address, and HTTP+JSON at those that the protocol names.

Every request goes through the guard, and every route asks for a role: reading needs `read`, answering `answer`,
starting and ending tasks `run`. What is wrong with a request is said in the form of its binding.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, JsonValue

from teamwright.errors import TeamwrightError
from teamwright.server.a2a.agent import TeamAgent, address_of, agent_card
from teamwright.server.a2a.operations import OPERATIONS, Operation, Updates
from teamwright.server.a2a.wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NO_JSON_TYPE,
    VERSION_HEADER,
    A2AError,
    Json,
    RpcRequest,
    check_version,
    error_of,
    read_json,
    validated,
)
from teamwright.server.error_responses import NotAllowed, NotKnown, responses
from teamwright.server.error_statuses import RefusedRequest
from teamwright.server.guard import note_call
from teamwright.server.routes.sockets import SILENCE, EventStream, sse
from teamwright.server.state import MAY_ANSWER, MAY_READ, MAY_RUN, Server

if TYPE_CHECKING:
    from teamwright.server.state import ServerState

router = APIRouter(prefix="/a2a/{team}", tags=["a2a"])
ANY_OBJECT: dict[str, Any] = {"schema": {"type": "object"}}
Responses = dict[int | str, dict[str, Any]]


class ProtocolError(BaseModel):
    """What went wrong, in the form of AIP-193; of an address that does not exist in the form of this server."""

    code: int | str
    status: str = ""
    message: str
    details: list[dict[str, JsonValue]] = []


class ProtocolErrorBody(BaseModel):
    """The body of an error of an agent."""

    error: ProtocolError


ERRORS: Responses = {
    **responses(),
    **{
        status: {"model": ProtocolErrorBody, "description": "an error in the form of the protocol"}
        for status in (400, 404, 415, 500)
    },
}
"""What the guard refuses is in the form of this server, what an agent refuses in that of the protocol."""
RESULT: dict[str, Any] = {"application/json": ANY_OBJECT}
UPDATES: dict[str, Any] = {"text/event-stream": {}}
ANSWERED: Responses = {**ERRORS, 200: {"content": RESULT, "description": "the result"}}
STREAMED: Responses = {**ERRORS, 200: {"content": UPDATES, "description": "the updates of a task"}}
BOTH: Responses = {**ERRORS, 200: {"content": RESULT | UPDATES, "description": "a result, an error or a stream"}}
CACHED: Responses = {304: {"description": "the card that the client has"}}
JSON_TYPES = frozenset(("application/json", "application/a2a+json"))


@router.get(
    "/.well-known/agent-card.json",
    responses={**responses(404), **CACHED},
    response_class=Response,
    dependencies=[MAY_READ],
)
async def read_card(server: Server, request: Request, team: str) -> Response:
    """Return the agent card of a team."""
    loaded = await anyio.to_thread.run_sync(server.catalogue.load, team)
    card = await anyio.to_thread.run_sync(agent_card, team, loaded, address_of(request))
    body = json.dumps(card).encode()
    headers = {"ETag": f'"{sha256(body).hexdigest()[:32]}"', "Cache-Control": "private, max-age=60"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


@router.post("", responses=BOTH, response_model=None, dependencies=[MAY_READ])
@router.post("/", responses=BOTH, response_model=None, dependencies=[MAY_READ], operation_id="call_agent_with_slash")
async def call_agent(server: Server, request: Request, team: str) -> Response:
    """Call an operation of an agent by JSON-RPC; the role that it needs depends on the operation."""
    agent = await _agent(server, request, team)
    id_: str | int | None = None
    try:
        asked = RpcRequest.read(await _body(request))
        id_ = asked.id
        note_call(request, asked.method, is_reading=False)
        operation = OPERATIONS.get(asked.method)
        if operation is None:
            raise A2AError(METHOD_NOT_FOUND, f"there is no method {asked.method!r}; see A2A 1.0")
        note_call(request, asked.method, is_reading=operation.reads)
        result = await _call(operation, agent, asked.params or {})
    except (A2AError, TeamwrightError, RefusedRequest) as error:
        return JSONResponse({"jsonrpc": "2.0", "id": id_, "error": error_of(error).rpc_error()})

    def envelope(found: Json) -> Json:
        return {"jsonrpc": "2.0", "id": id_, "result": found}

    def failure(error: A2AError) -> Json:
        return {"jsonrpc": "2.0", "id": id_, "error": error.rpc_error()}

    return EventStream(_events(result, envelope, failure)) if operation.stream else JSONResponse(envelope(result))


@router.post("/message:send", responses=ANSWERED, response_model=None, dependencies=[MAY_ANSWER])
async def send_message(server: Server, request: Request, team: str) -> Response:
    """Send a message to an agent; one without a task needs the role `run`."""
    return await _http(server, request, team, "SendMessage")


@router.post("/message:stream", responses=STREAMED, response_model=None, dependencies=[MAY_ANSWER])
async def stream_message(server: Server, request: Request, team: str) -> Response:
    """Send a message to an agent, and follow its task by server-sent events."""
    return await _http(server, request, team, "SendStreamingMessage")


@router.get("/tasks", responses=ANSWERED, response_model=None, dependencies=[MAY_READ])
async def list_tasks(server: Server, request: Request, team: str) -> Response:
    """Return a page of the tasks of an agent."""
    return await _http(server, request, team, "ListTasks", {})


@router.get("/tasks/{task_id}:subscribe", responses=STREAMED, response_model=None, dependencies=[MAY_READ])
@router.post(
    "/tasks/{task_id}:subscribe",
    responses=STREAMED,
    response_model=None,
    dependencies=[MAY_READ],
    operation_id="subscribe_by_post",
)
async def subscribe_to_task(server: Server, request: Request, team: str, task_id: str) -> Response:
    """Follow a task by server-sent events."""
    return await _http(server, request, team, "SubscribeToTask", {"id": task_id})


@router.post("/tasks/{task_id}:cancel", responses=ANSWERED, response_model=None, dependencies=[MAY_RUN])
async def cancel_task(server: Server, request: Request, team: str, task_id: str) -> Response:
    """End a task for good."""
    return await _http(server, request, team, "CancelTask", {"id": task_id})


@router.get("/tasks/{task_id}", responses=ANSWERED, response_model=None, dependencies=[MAY_READ])
async def read_task(server: Server, request: Request, team: str, task_id: str) -> Response:
    """Return a task."""
    return await _http(server, request, team, "GetTask", {"id": task_id})


CONFIGS = "/tasks/{task_id}/pushNotificationConfigs"


@router.post(CONFIGS, responses=ANSWERED, response_model=None, dependencies=[MAY_RUN])
async def create_push_config(server: Server, request: Request, team: str, task_id: str) -> Response:
    """Send the updates of a task to an address from now on."""
    return await _http(server, request, team, "CreateTaskPushNotificationConfig", {"taskId": task_id}, has_body=True)


@router.get(CONFIGS, responses=ANSWERED, response_model=None, dependencies=[MAY_READ])
async def list_push_configs(server: Server, request: Request, team: str, task_id: str) -> Response:
    """Return where the updates of a task are sent."""
    return await _http(server, request, team, "ListTaskPushNotificationConfigs", {"taskId": task_id})


@router.get(f"{CONFIGS}/{{config}}", responses=ANSWERED, response_model=None, dependencies=[MAY_READ])
async def read_push_config(server: Server, request: Request, team: str, task_id: str, config: str) -> Response:
    """Return one address to which the updates of a task are sent."""
    return await _http(server, request, team, "GetTaskPushNotificationConfig", {"taskId": task_id, "id": config})


@router.delete(f"{CONFIGS}/{{config}}", responses=ANSWERED, response_model=None, dependencies=[MAY_RUN])
async def delete_push_config(server: Server, request: Request, team: str, task_id: str, config: str) -> Response:
    """Send no more updates of a task to an address."""
    return await _http(server, request, team, "DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": config})


@router.get("/extendedAgentCard", responses=ANSWERED, response_model=None, dependencies=[MAY_READ])
async def read_extended_card(server: Server, request: Request, team: str) -> Response:
    """Refuse: the card says everything."""
    return await _http(server, request, team, "GetExtendedAgentCard", {})


async def _agent(server: ServerState, request: Request, team: str) -> TeamAgent:
    return TeamAgent(server, request, team, await anyio.to_thread.run_sync(server.catalogue.load, team))


async def _body(request: Request) -> bytes:
    """Return the body of a request; raises `A2AError` where it says that it is no JSON."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in JSON_TYPES:
        raise A2AError(NO_JSON_TYPE, f"send application/json, not {kind[:100]!r}")
    return await request.body()


async def _http(
    server: ServerState, request: Request, team: str, name: str, given: Json | None = None, *, has_body: bool = False
) -> Response:
    """Call an operation by HTTP+JSON: `given` is what its path names; without it, its body has everything."""
    agent, operation = await _agent(server, request, team), OPERATIONS[name]
    note_call(request, name, is_reading=operation.reads)
    try:
        reads_body = has_body or given is None
        value: JsonValue = read_json(await _body(request)) if reads_body else {**request.query_params}
        if not isinstance(value, dict):
            raise A2AError(INVALID_PARAMS, "the body is no object")
        result = await _call(operation, agent, {**value, **(given or {})})
    except (A2AError, TeamwrightError, RefusedRequest) as error:
        found = error_of(error)
        return JSONResponse(found.http_error(), found.kind.status)
    return EventStream(_events(result, dict, A2AError.http_error)) if operation.stream else JSONResponse(result)


async def _call(operation: Operation, agent: TeamAgent, given: Json) -> Any:
    request = agent.request
    check_version(request.headers.get(VERSION_HEADER) or request.query_params.get(VERSION_HEADER))
    return await operation.call(agent, validated(operation.form, given))


async def _events(
    updates: Updates, envelope: Callable[[Json], Json], failure: Callable[[A2AError], Json]
) -> AsyncGenerator[str]:
    """Yield updates as server-sent events; an error that comes too late for a status is the last of them."""
    try:
        async for update in updates:
            yield SILENCE if update is None else sse(envelope(update))
    except (NotKnown, NotAllowed):
        return
    except (A2AError, TeamwrightError, RefusedRequest) as error:
        yield sse(failure(error_of(error)))
