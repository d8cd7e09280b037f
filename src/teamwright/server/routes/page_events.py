"""What a page shows of a run: its page events, and what exactly each turn received."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import JsonValue

from teamwright.runtime.prompts import rebuild_prompt
from teamwright.server.errors import require_run, responses
from teamwright.server.page.page_events import encode
from teamwright.server.page.page_reader import read_page_events
from teamwright.server.security.access import MAY_READ, Server

router = APIRouter(prefix="/api/runs/{run_id}", tags=["page"])
JSON = "application/json"
MOST_EVENTS = 10_000
PAGE_EVENT: dict[str, Any] = {
    "type": "object",
    "description": "a page event, as docs/page-events.schema.json describes it",
    "required": ["kind", "number", "index", "time", "scope", "key", "expert"],
}
FOUND: dict[int | str, dict[str, Any]] = {
    200: {"content": {JSON: {"schema": {"type": "array", "items": PAGE_EVENT}}}, "description": "page events"}
}


@router.get("/page-events", responses=FOUND | responses(404), response_class=Response, dependencies=[MAY_READ])
async def list_page_events(
    server: Server,
    run_id: str,
    after: Annotated[int, Query(ge=0, description="the number of the last journal event that the client has")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_EVENTS, description="how many journal events to read")] = MOST_EVENTS,
) -> Response:
    """Return the page events of all recorded events of a run after a number."""
    await require_run(server.engine, run_id)
    events = await read_page_events(server.engine.journal, run_id, after, limit)
    return Response(encode(events), media_type=JSON)


@router.get("/prompts/{key:path}", responses=responses(404), dependencies=[MAY_READ])
async def read_prompt(server: Server, run_id: str, key: str) -> dict[str, JsonValue]:
    """Return what the turn with a key received: its task, the messages before it, and every request to a model."""
    await require_run(server.engine, run_id)
    return (await rebuild_prompt(server.engine, run_id, key)).to_json()
