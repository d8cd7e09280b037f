"""Runs: start, list, read, follow, resume and end them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

import anyio
from fastapi import APIRouter, Header, Query, WebSocket
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.websockets import WebSocketDisconnect, WebSocketState

from teamwright.errors import RunNotFound, TeamwrightError
from teamwright.server.access import MAY_READ, MAY_RUN, Runner, Server, need, state_of
from teamwright.server.errors import NotAllowed, NotKnown, responses
from teamwright.server.feed import Item, TooSlow, item_of, run_feed
from teamwright.server.state import ServerState
from teamwright.values.limits.limits import Limits

router = APIRouter(prefix="/api/runs", tags=["runs"])
HEARTBEAT = 15.0
SEND_SECONDS = 10.0
"""How long a socket may take for one item before its client is dropped."""
REFUSED, NO_SUCH_RUN, TRY_AGAIN = 1008, 4404, 1013
After = Annotated[int, Query(ge=0, description="the number of the last event that the client has")]


class NewRun(BaseModel):
    """A run to be started."""

    model_config = ConfigDict(extra="forbid")
    team: str = Field(description="the id of a team of this server")
    task: str = Field(min_length=1, max_length=1_000_000)
    run_id: str | None = Field(default=None, description="an id of your own; a run that has it is returned as it is")
    conversation: str | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_usd: float | None = Field(default=None, gt=0)
    max_seconds: float | None = Field(default=None, gt=0)

    def limits(self) -> Limits | None:
        """The limits of the run, if any is given."""
        given = {"tokens": self.max_tokens, "usd": self.max_usd, "seconds": self.max_seconds}
        given = {name: value for name, value in given.items() if value is not None}
        return Limits.model_validate(given) if given else None


@router.get("", responses=responses(), dependencies=[MAY_READ])
async def list_runs(server: Server, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[dict[str, JsonValue]]:
    """Return the newest runs."""
    return [summary.to_json() for summary in await server.engine.runs.list(limit)]


@router.post("", status_code=201, responses=responses(404, 409), dependencies=[MAY_RUN])
async def start_run(server: Server, new: NewRun) -> dict[str, JsonValue]:
    """Start a run of a team; it is in the journal when this returns."""
    team = await anyio.to_thread.run_sync(server.catalogue.load, new.team)
    handle = await server.engine.start(
        team, new.task, run_id=new.run_id, conversation=new.conversation, limits=new.limits()
    )
    return {"run_id": handle.run_id}


@router.get("/{run_id}", responses=responses(404), dependencies=[MAY_READ])
async def read_run(server: Server, run_id: str) -> dict[str, JsonValue]:
    """Return the result of a run, or its present status."""
    await _require_run(server, run_id)
    return (await server.engine.runs.result(run_id)).to_json()


@router.get("/{run_id}/events", responses=responses(404), dependencies=[MAY_READ])
async def read_events(
    server: Server,
    run_id: str,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> list[dict[str, JsonValue]]:
    """Return recorded events with their texts."""
    await _require_run(server, run_id)
    events = await server.engine.journal.read(run_id, after, limit)
    return [await item_of(server.engine, event) for event in events]


@router.get("/{run_id}/stream", responses=responses(404), response_class=StreamingResponse, dependencies=[MAY_READ])
async def stream_run(
    server: Server,
    run_id: str,
    after: After = 0,
    deltas: bool = True,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Follow a run by server-sent events; `Last-Event-ID` continues after an event."""
    await _require_run(server, run_id)
    start = int(last_event_id) if last_event_id is not None and last_event_id.isdecimal() else after
    return StreamingResponse(_sse(server, run_id, start, deltas), media_type="text/event-stream")


async def _sse(server: ServerState, run_id: str, after: int, deltas: bool) -> AsyncIterator[str]:
    async with run_feed(server.engine, run_id, after, deltas=deltas) as feed:
        while True:
            item: Item | None = None
            with anyio.move_on_after(HEARTBEAT) as waited:
                try:
                    item = await anext(feed)
                except StopAsyncIteration:
                    yield "event: end\ndata: {}\n\n"
                    return
                except TooSlow as error:
                    yield f"event: slow\ndata: {json.dumps({'after': error.number})}\n\n"
                    return
            if item is None and waited.cancelled_caught:
                yield ": still here\n\n"
            elif item is not None:
                number = f"id: {item['number']}\n" if "number" in item else ""
                yield f"{number}event: {item['kind']}\ndata: {json.dumps(item)}\n\n"


@router.websocket("/{run_id}/socket")
async def follow_run(socket: WebSocket, run_id: str, after: int = 0, deltas: bool = True) -> None:
    """Follow a run by a socket: an item is one JSON text; the last one has the kind `end` or `slow`."""
    try:
        need(socket, "read")
    except (NotKnown, NotAllowed) as error:
        await socket.close(REFUSED, str(error) or "show a token")
        return
    server = state_of(socket)
    if await server.engine.runs.find(run_id) is None:
        await socket.close(NO_SUCH_RUN, "there is no such run")
        return
    await socket.accept()
    try:
        async with run_feed(server.engine, run_id, max(0, after), deltas=deltas) as feed:
            await _send_all(socket, feed)
    except* WebSocketDisconnect:
        pass


async def _send_all(socket: WebSocket, feed: AsyncIterator[Item]) -> None:
    """Send items until there is none; a client that does not take one in time is dropped."""
    number = 0
    try:
        async for item in feed:
            with anyio.fail_after(SEND_SECONDS):
                await socket.send_json(item)
            if isinstance(sent := item.get("number"), int):
                number = sent
        await socket.send_json({"kind": "end"})
        await socket.close()
    except (TooSlow, TimeoutError) as error:
        after = error.number if isinstance(error, TooSlow) else number
        if socket.application_state is WebSocketState.CONNECTED:
            await socket.close(TRY_AGAIN, f"too slow; come back after event {after}")


@router.post("/{run_id}/resume", status_code=202, responses=responses(404, 409), dependencies=[MAY_RUN])
async def resume_run(server: Server, run_id: str) -> dict[str, JsonValue]:
    """Resume a run that was paused or interrupted; this server drives it from now on."""
    await _require_run(server, run_id)
    await server.engine.start_resume(run_id)
    return {"run_id": run_id}


@router.post("/{run_id}/pause", responses=responses(404, 409), dependencies=[MAY_RUN])
async def pause_run(server: Server, run_id: str) -> dict[str, JsonValue]:
    """Pause a run after its calls in flight."""
    await _require_run(server, run_id)
    return (await server.engine.runs.pause(run_id)).to_json()


@router.post("/{run_id}/cancel", responses=responses(404, 409))
async def cancel_run(server: Server, visitor: Runner, run_id: str) -> dict[str, JsonValue]:
    """End a run for good."""
    await _require_run(server, run_id)
    return (await server.engine.runs.cancel(run_id, f"by {visitor.name}")).to_json()


async def _require_run(server: ServerState, run_id: str) -> None:
    try:
        found = await server.engine.runs.find(run_id)
    except TeamwrightError as error:
        raise RunNotFound(run_id) from error
    if found is None:
        raise RunNotFound(run_id)
