"""Readings of what is recorded: of runs, and for admins of the server, whose audit and webhook calls they see."""

from __future__ import annotations

from io import BytesIO
from typing import Annotated, Any
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZipFile

import anyio
from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import JsonValue

from teamwright.history.diff import compare
from teamwright.history.kpi_gates import check_gates, read_gates
from teamwright.history.kpis import read_kpis
from teamwright.runtime.recorded.rebuilt_prompts import rebuild_prompt
from teamwright.server.error_responses import require_run, responses
from teamwright.server.guard import AuditLine
from teamwright.server.masked_json import masked
from teamwright.server.page.export import export_html
from teamwright.server.page.page_events import encode
from teamwright.server.page.projection import list_artifacts, read_artifact, read_page_events
from teamwright.server.state import MAY_ADMIN, MAY_READ, Server
from teamwright.server.webhook_notices import WebhookLine

router = APIRouter(prefix="/api/runs/{run_id}", tags=["records"])
page_router = APIRouter(prefix="/api/runs/{run_id}", tags=["page"])
files_router = APIRouter(tags=["page"])
audit_router = APIRouter(tags=["audit"])
SAFE_TYPES = frozenset(("text/plain", "text/csv", "text/markdown", "application/json", "application/pdf", "image/png"))
"""Media types that a download keeps; every other becomes a stream of bytes, which no browser interprets."""
CONTENT: dict[int | str, dict[str, Any]] = {200: {"content": {"*/*": {}}, "description": "the content, to be saved"}}
DOWNLOAD = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
JSON = "application/json"
MOST_EVENTS = 50_000
MOST_EXPORTED = 50
PAGE_EVENT: dict[str, Any] = {
    "type": "object",
    "description": "a page event, as docs/reference/page-events.schema.json describes it",
    "required": ["kind", "number", "index", "time", "scope", "key", "expert"],
}
FOUND: dict[int | str, dict[str, Any]] = {
    200: {"content": {JSON: {"schema": {"type": "array", "items": PAGE_EVENT}}}, "description": "page events"}
}


@router.get("/checkpoints", responses=responses(404), dependencies=[MAY_READ])
async def list_checkpoints(server: Server, run_id: str) -> list[dict[str, JsonValue]]:
    """Return the points of a run at which a fork can start."""
    await require_run(server.engine, run_id)
    return [masked(point.to_json()) for point in await server.engine.runs.checkpoints(run_id)]


@router.get("/diff/{other}", responses=responses(404), dependencies=[MAY_READ])
async def compare_runs(server: Server, run_id: str, other: str) -> dict[str, JsonValue]:
    """Compare two runs: their turns aligned by key, members, figures and manifests; `a` is this run."""
    runs = server.engine.runs
    await require_run(server.engine, run_id)
    await require_run(server.engine, other)
    a, b = await runs.history(run_id), await runs.history(other)
    return masked(compare(a, b, await runs.result(run_id), await runs.result(other)).to_json())


@router.get("/kpis", responses=responses(404), dependencies=[MAY_READ])
async def measure_run(
    server: Server,
    run_id: str,
    gate: Annotated[list[str], Query(max_length=20, description="thresholds, such as pass_rate>=0.8")] = [],  # noqa: B006
) -> dict[str, JsonValue]:
    """Measure a run: pass rate, tokens, coordination, latency; with `gate`, say which thresholds it passes."""
    await require_run(server.engine, run_id)
    gates = read_gates(gate or ["default"])
    found = await read_kpis(server.engine.journal, run_id)
    return masked({**found.to_json(), "gates": [one.to_json() for one in check_gates(gates, found)]})


@router.get("/artifacts", responses=responses(404), dependencies=[MAY_READ])
async def artifacts(server: Server, run_id: str) -> list[dict[str, JsonValue]]:
    """Return the files and large texts that the run's members stored."""
    await require_run(server.engine, run_id)
    return [one.to_json() for one in await list_artifacts(server.engine.journal, run_id)]


@router.get(
    "/artifacts/{hash}",
    responses=CONTENT | responses(404),
    response_class=Response,
    dependencies=[MAY_READ],
)
async def artifact(server: Server, run_id: str, hash: str) -> Response:
    """Return the content of an artifact, always as a download: a browser never shows it as a page."""
    await require_run(server.engine, run_id)
    found, content = await read_artifact(server.engine.journal, run_id, hash)
    media_type = found.media_type if found.media_type in SAFE_TYPES else "application/octet-stream"
    name = quote(found.name.replace("/", "_")[:100] or "artifact", safe="")
    headers = {**DOWNLOAD, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(content, media_type=media_type, headers=headers)


@page_router.get("/export", responses=CONTENT | responses(404), response_class=Response, dependencies=[MAY_READ])
async def export_run(server: Server, run_id: str) -> Response:
    """Return the run as one HTML file, to be saved: the views of the page without a server."""
    await require_run(server.engine, run_id)
    text = await export_html(server.engine, run_id, prompts=False)
    headers = {**DOWNLOAD, "Content-Disposition": f"attachment; filename*=UTF-8''{quote(run_id, safe='')}.html"}
    return Response(text, media_type="text/html", headers=headers)


@files_router.get("/api/export", responses=CONTENT | responses(404), response_class=Response, dependencies=[MAY_READ])
async def export_runs(
    server: Server,
    run: Annotated[list[str], Query(min_length=1, max_length=MOST_EXPORTED, description="the ids of runs")],
) -> Response:
    """Return several runs as one ZIP file, to be saved: an HTML file for each."""
    for run_id in run:
        await require_run(server.engine, run_id)
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as archive:
        for run_id in dict.fromkeys(run):
            text = await export_html(server.engine, run_id, prompts=False)
            await anyio.to_thread.run_sync(archive.writestr, f"{run_id}.html", text)
    headers = {**DOWNLOAD, "Content-Disposition": "attachment; filename=runs.zip"}
    return Response(content.getvalue(), media_type="application/zip", headers=headers)


@page_router.get("/page-events", responses=FOUND | responses(404), response_class=Response, dependencies=[MAY_READ])
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


@page_router.get("/prompts/{key:path}", responses=responses(404), dependencies=[MAY_READ])
async def read_prompt(server: Server, run_id: str, key: str) -> dict[str, JsonValue]:
    """Return what the turn with a key received: its task, the messages before it, and every request to a model."""
    await require_run(server.engine, run_id)
    return (await rebuild_prompt(server.engine, run_id, key)).to_json()


@audit_router.get("/api/audit", responses=responses(), dependencies=[MAY_ADMIN])
async def read_audit(server: Server, limit: Annotated[int, Query(ge=1, le=10_000)] = 200) -> list[AuditLine]:
    """Return who changed what, newest first."""
    return await anyio.to_thread.run_sync(server.audit.read, limit)


@audit_router.get("/api/webhooks", responses=responses(), dependencies=[MAY_ADMIN])
async def read_webhooks(server: Server, limit: Annotated[int, Query(ge=1, le=10_000)] = 200) -> list[WebhookLine]:
    """Return the attempts to tell a webhook of ended runs and budget warnings, newest first."""
    return await anyio.to_thread.run_sync(server.webhook_notices.log.attempts, limit)
