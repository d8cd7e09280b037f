"""What is recorded of runs, and what the operator of a server looks after: the audit, figures over time, memories.

Wings have more for operators at their own addresses: the cluster, and the templates of experts.
"""

from __future__ import annotations

from io import BytesIO
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZipFile

import anyio
from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from teamwright.agents.tools.built_in import MOST_NOTE_BYTES, MOST_NOTES
from teamwright.errors import UnknownName, UsageError
from teamwright.history.diff import compare
from teamwright.history.kpis import check_gates, read_gates, read_kpis
from teamwright.history.telemetry.exporter import CONTENT_TYPE, as_text
from teamwright.journal.agent_notes import Note, Notes, words_of
from teamwright.runtime.recorded.rebuilt_prompts import rebuild_prompt
from teamwright.server.error_responses import require_run, responses
from teamwright.server.guard import AuditLine
from teamwright.server.masked_json import masked, masked_model, unmasked
from teamwright.server.page.export import export_html
from teamwright.server.page.figures import FiguresOverTime
from teamwright.server.page.page_events import encode
from teamwright.server.page.projection import list_artifacts, read_artifact, read_page_events
from teamwright.server.routes.runs import beside
from teamwright.server.state import MAY_ADMIN, MAY_READ, Admin, FoundRun, Server
from teamwright.server.webhook_notices import WebhookLine
from teamwright.values.call_limits import text_size
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.results import iso
from teamwright.wings import hooks

if TYPE_CHECKING:
    from teamwright.server.state import ServerState


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
async def list_checkpoints(server: Server, run: FoundRun) -> list[dict[str, JsonValue]]:
    """Return the points of a run at which a fork can start."""
    return [masked(point.to_json()) for point in await server.engine.runs.checkpoints(run.id)]


@router.get("/diff/{other}", responses=responses(404), dependencies=[MAY_READ])
async def compare_runs(server: Server, run: FoundRun, other: str) -> dict[str, JsonValue]:
    """Compare two runs: their turns aligned by key, members, figures and manifests; `a` is this run."""
    runs = server.engine.runs
    await require_run(server.engine, other)
    a, b = await runs.history(run.id), await runs.history(other)
    return masked(compare(a, b, await runs.result(run.id), await runs.result(other)).to_json())


@router.get("/kpis", responses=responses(404), dependencies=[MAY_READ])
async def measure_run(
    server: Server,
    run: FoundRun,
    gate: Annotated[list[str], Query(max_length=20, description="thresholds, such as pass_rate>=0.8")] = [],  # noqa: B006
) -> dict[str, JsonValue]:
    """Measure a run: pass rate, tokens, coordination, latency; with `gate`, say which thresholds it passes."""
    gates = read_gates(gate or ["default"])
    found = await read_kpis(server.engine.journal, run.id)
    return masked({**found.to_json(), "gates": [one.to_json() for one in check_gates(gates, found)]})


@router.get("/artifacts", responses=responses(404), dependencies=[MAY_READ])
async def artifacts(server: Server, run: FoundRun) -> list[dict[str, JsonValue]]:
    """Return the files and large texts that the run's members stored."""
    return [one.to_json() for one in await list_artifacts(server.engine.journal, run.id)]


@router.get(
    "/artifacts/{hash}",
    responses=CONTENT | responses(404),
    response_class=Response,
    dependencies=[MAY_READ],
)
async def artifact(server: Server, run: FoundRun, hash: str) -> Response:
    """Return the content of an artifact, always as a download: a browser never shows it as a page."""
    found, content = await read_artifact(server.engine.journal, run.id, hash)
    media_type = found.media_type if found.media_type in SAFE_TYPES else "application/octet-stream"
    name = quote(found.name.replace("/", "_")[:100] or "artifact", safe="")
    headers = {**DOWNLOAD, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(content, media_type=media_type, headers=headers)


@page_router.get("/export", responses=CONTENT | responses(404), response_class=Response, dependencies=[MAY_READ])
async def export_run(server: Server, run: FoundRun) -> Response:
    """Return the run as one HTML file, to be saved: the views of the page without a server."""
    text = await export_html(server.engine, run.id, prompts=False)
    headers = {**DOWNLOAD, "Content-Disposition": f"attachment; filename*=UTF-8''{quote(run.id, safe='')}.html"}
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
    run: FoundRun,
    after: Annotated[int, Query(ge=0, description="the number of the last journal event that the client has")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_EVENTS, description="how many journal events to read")] = MOST_EVENTS,
) -> Response:
    """Return the page events of all recorded events of a run after a number."""
    events = await read_page_events(server.engine.journal, run.id, after, limit)
    return Response(encode(events), media_type=JSON)


@page_router.get("/prompts/{key:path}", responses=responses(404), dependencies=[MAY_READ])
async def read_prompt(server: Server, run: FoundRun, key: str) -> dict[str, JsonValue]:
    """Return what the turn with a key received: its task, the messages before it, and every request to a model."""
    return (await rebuild_prompt(server.engine, run.id, key)).to_json()


@audit_router.get("/api/audit", responses=responses(), dependencies=[MAY_ADMIN])
async def read_audit(server: Server, limit: Annotated[int, Query(ge=1, le=10_000)] = 200) -> list[AuditLine]:
    """Return who changed what, newest first."""
    return await anyio.to_thread.run_sync(server.audit.read, limit)


@audit_router.get("/api/webhooks", responses=responses(), dependencies=[MAY_ADMIN])
async def read_webhooks(server: Server, limit: Annotated[int, Query(ge=1, le=10_000)] = 200) -> list[WebhookLine]:
    """Return the attempts to tell a webhook of ended runs and budget warnings, newest first."""
    return await anyio.to_thread.run_sync(server.webhook_notices.log.attempts, limit)


operations_router = APIRouter(prefix="/api", tags=["operations"])
metrics_router = APIRouter(tags=["operations"])
"""At the address where Prometheus looks for it."""
FIGURES, MEMORY = "figures", "memory"
NoteId = Annotated[int, Path(ge=1, lt=2**53)]
MemoryName = Annotated[str, Query(max_length=200, description="TEAM/AGENT, TEAM/, or a shared name")]


class OperationsParts(BaseModel):
    """The parts of the page's operations that this server has."""

    parts: list[str]


@operations_router.get("/operations", responses=responses(), dependencies=[MAY_READ])
async def list_parts(server: Server) -> OperationsParts:
    """Return which parts there are: figures and memory, and those of the wings that are installed."""
    own = [FIGURES, *([] if server.engine.journal.notes is None else [MEMORY])]
    of_wings = [part for find in hooks("operations") if (part := find(server.engine.journal))]
    return OperationsParts(parts=[*own, *of_wings])


@operations_router.get("/figures", responses=responses(), dependencies=[MAY_READ])
async def read_figures(server: Server, days: Annotated[int, Query(ge=1, le=366)] = 30) -> FiguresOverTime:
    """Return runs, tokens and cost of the last days, by day and team, with the pass rate, and by model."""
    return masked_model(await server.figures.read(days))


METRICS: dict[int | str, dict[str, Any]] = {
    **responses(),
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "the metrics"},
}


@metrics_router.get("/metrics", responses=METRICS, dependencies=[MAY_READ], response_class=Response)
async def read_metrics(server: Server) -> Response:
    """Return what this server drives and spends, in the text format of Prometheus."""
    driving, exporter = sum(1 for _ in server.engine.driver.live), server.engine.driver.exporter
    found = as_text((*server.metrics.of_runs(driving), *server.metrics.of_process(exporter)))
    return Response(found, media_type=CONTENT_TYPE)


class Memory(BaseModel):
    """A memory of agents, and the number of its notes."""

    memory: str
    notes: int


class FoundNote(BaseModel):
    """A note that an agent or a person has written."""

    id: int
    text: str
    author: str
    run_id: str
    time: str


class WrittenNote(BaseModel):
    """The text of a note in a memory."""

    model_config = ConfigDict(extra="forbid")
    memory: str = Field(max_length=200)
    text: str = Field(max_length=MOST_NOTE_BYTES, pattern=r"^[^\x00]*$")


class RemovedNote(BaseModel):
    """A note that was removed."""

    memory: str
    removed: int


@operations_router.get("/memory", responses=responses(), dependencies=[MAY_READ])
async def list_memories(server: Server) -> list[Memory]:
    """Return the memories that agents keep across runs."""
    found = await _notes_of(server).memories()
    return [Memory(memory=name, notes=count) for name, count in found.items()]


@operations_router.get("/memory/notes", responses=responses(404), dependencies=[MAY_READ])
async def list_notes(
    server: Server,
    memory: MemoryName,
    search: Annotated[str, Query(max_length=200, description="words, the best match first")] = "",
) -> list[FoundNote]:
    """Return the notes of a memory, the newest first, or those with some words."""
    notes = await _memory_of(server, memory)
    return [_shown(one) for one in await notes.search(memory, words_of(search), MOST_NOTES)]


@operations_router.post("/memory/notes", status_code=201, responses=responses(404))
async def add_note(server: Server, visitor: Admin, new: WrittenNote) -> FoundNote:
    """Add a note to a memory; one with the same text is returned if there is one."""
    notes = await _memory_of(server, new.memory)
    return _shown(await _add(notes, new, new.text, visitor.name, MOST_NOTES))


@operations_router.put("/memory/notes/{note}", responses=responses(404))
async def edit_note(server: Server, visitor: Admin, note: NoteId, new: WrittenNote) -> FoundNote:
    """Replace a note: it has another id from then on."""
    notes = await _memory_of(server, new.memory)
    before = next((one for one in await notes.search(new.memory, (), MOST_NOTES) if one.id == note), None)
    if before is None:
        raise UnknownName("note", str(note), [])
    with beside("text"):
        text = str(unmasked(new.text, before.text))
    added = await _add(notes, new, text, visitor.name, MOST_NOTES + 1)  # first, so that a crash loses nothing
    if added.id != note:
        await notes.forget(new.memory, note, key=token_hex())
    return _shown(added)


@operations_router.delete("/memory/notes/{note}", responses=responses(404), dependencies=[MAY_ADMIN])
async def remove_note(server: Server, note: NoteId, memory: MemoryName) -> RemovedNote:
    """Remove a note."""
    notes = await _memory_of(server, memory)
    if not await notes.forget(memory, note, key=token_hex()):
        raise UnknownName("note", str(note), [])
    return RemovedNote(memory=memory, removed=note)


def _notes_of(server: ServerState) -> Notes:
    if (notes := server.engine.journal.notes) is None:
        raise UsageError("The journal of this server keeps no notes.")
    return notes


async def _memory_of(server: ServerState, memory: str) -> Notes:
    """Return the notes where this memory has some; raises `UnknownName` if it has none."""
    notes = _notes_of(server)
    if memory not in (known := await notes.memories()):
        raise UnknownName("memory", memory, known)
    return notes


async def _add(notes: Notes, new: WrittenNote, text: str, author: str, most: int) -> Note:
    with beside("text"):
        if not text.strip():
            raise UsageError("The note is empty; write what is to be remembered.")
        if text_size(text) > MOST_NOTE_BYTES:
            raise UsageError(f"The note is longer than {MOST_NOTE_BYTES} bytes; write a shorter one.")
        added = await notes.add(Note(0, new.memory, text.strip(), author, "", time()), key=token_hex(), most=most)
        if added is None:
            raise UsageError(f"The memory is full: it holds {MOST_NOTES} notes. Remove some that are of no use.")
    return added


def _shown(note: Note) -> FoundNote:
    return FoundNote(id=note.id, text=mask_text(note.text), author=note.author, run_id=note.run_id, time=iso(note.time))
