"""The Responses API over the teams of a server: create, read, follow and cancel responses, which are runs.

A request is one run, however often its client sends it, or one answer to what a run asks. Every request goes through
the guard: reading needs `read`, answering `answer`, starting and cancelling `run`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from teamwright.errors import NotResumable
from teamwright.server.error_responses import responses
from teamwright.server.guard import note_started
from teamwright.server.model_call import ModelCall, Retry, awaited_result, followed, key_run
from teamwright.server.responses.record import ResponseId, find_response, read_response, response_json
from teamwright.server.responses.requests import ResponseRequest, answering_member
from teamwright.server.responses.stream import ResponseStream
from teamwright.server.responses.wire import NewResponse
from teamwright.server.routes.sockets import EventStream
from teamwright.server.state import MAY_READ, Answerer, Runner, Server, need
from teamwright.values.turns.results import FINAL

router = APIRouter(prefix="/v1/responses", tags=["openai"])
Json = dict[str, Any]
RESPONSE: dict[int | str, Json] = {
    200: {
        "description": "a response, or with `stream` its events",
        "content": {
            "application/json": {"schema": {"type": "object", "required": ["id", "status", "output"]}},
            "text/event-stream": {},
        },
    }
}
CANCEL_SECONDS = 10.0
"""How long a request to cancel a response waits for its end."""
LARGEST_NUMBER = 2**53


@router.post("", responses=RESPONSE | responses(404, 409), response_model=None)
async def create_response(
    server: Server, request: Request, visitor: Answerer, asked: NewResponse, retry: Retry
) -> Response:
    """Let a team answer, or answer what the run of the previous response asks.

    Requests are the same, and one run, as with chat completions. A response that waits for a person is `incomplete`
    with the questions as its last messages; a request with its id as `previous_response_id` answers them.
    """
    sent = ResponseRequest(server, request, asked, retry)
    answered = await sent.answer(visitor)
    if answered is not None:
        note_started(request, answered.run_id)
        return await _answered(server, request, asked, answered)
    need(request, "run")
    team = await sent.team()
    make = await sent.run_of(team)
    call = await ModelCall.enter(server, request, visitor, retry, kept=asked.is_kept, stream=asked.stream)
    try:
        await call.start(key_run(visitor, retry, "responses"), make)
        return await _started(server, request, asked, call, answering_member(team))
    except BaseException:
        call.leave()
        raise


async def _started(
    server: Server, request: Request, asked: NewResponse, call: ModelCall, answering: str | None
) -> Response:
    """Answer a request whose run has started, and let its client go."""
    id_ = ResponseId(call.run_id)
    if asked.stream:
        stream = ResponseStream(server, request, await read_response(server, id_), asked.echo())

        async def texts() -> AsyncGenerator[str]:
            async with aclosing(stream.texts(call.frames(), answering, "run")) as found:
                async for text in found:
                    yield text
            if stream.final is not None:
                call.answered(is_kept=stream.final.summary.status not in FINAL)
            else:
                call.keep()

        return EventStream(texts(), ended=call.leave)
    if asked.background:
        call.answered(is_kept=True)
    else:
        result = await call.result()
        call.answered(is_kept=result.status not in FINAL)
    found = await response_json(server, id_)
    call.leave()
    return JSONResponse(found | asked.echo())


async def _answered(server: Server, request: Request, asked: NewResponse, id_: ResponseId) -> Response:
    """Answer a request that has answered a question; the run goes on without its client."""
    if asked.stream:
        stream = ResponseStream(server, request, await read_response(server, id_), asked.echo())
        return EventStream(stream.texts(followed(server, request, id_.run_id, "answer"), None, "answer"))
    if not asked.background:
        await awaited_result(server, request, id_.run_id, "answer")
    return JSONResponse(await response_json(server, id_) | asked.echo())


@router.get("/{response_id}", responses=RESPONSE | responses(404), response_model=None, dependencies=[MAY_READ])
async def read(
    server: Server,
    request: Request,
    response_id: str,
    stream: bool = False,
    starting_after: Annotated[int, Query(ge=-1, le=LARGEST_NUMBER)] = -1,
) -> Response:
    """Return a response, or with `stream` its events, after the event with a number."""
    _, id_ = await find_response(server, response_id)
    if not stream:
        return JSONResponse(await response_json(server, id_))
    events = ResponseStream(server, request, await read_response(server, id_), {}, after=starting_after)
    return EventStream(events.texts(followed(server, request, id_.run_id, "read"), None, "read"))


@router.post("/{response_id}/cancel", responses=RESPONSE | responses(404), response_model=None)
async def cancel(server: Server, visitor: Runner, response_id: str) -> Response:
    """End the run of a response for good; one that has ended stays as it is."""
    found, id_ = await find_response(server, response_id)
    if found.status not in FINAL:
        with anyio.move_on_after(CANCEL_SECONDS):
            with suppress(NotResumable):  # it has ended meanwhile
                await server.engine.runs.cancel(found.id, f"by {visitor.name}", by=visitor.name)
    return JSONResponse(await response_json(server, id_))
