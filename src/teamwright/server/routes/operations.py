"""What the operator of a server looks after, beside single runs: figures over time, and the memories of agents.

Wings have more of it at their own addresses: the cluster, and the templates of experts.
"""

from __future__ import annotations

from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from teamwright.agents.tools.built_in import MOST_NOTE_BYTES, MOST_NOTES
from teamwright.errors import UnknownName, UsageError
from teamwright.history.telemetry.metrics import CONTENT_TYPE, as_text
from teamwright.journal.agent_notes import Note, Notes, words_of
from teamwright.server.error_responses import responses
from teamwright.server.masked_json import masked, unmasked
from teamwright.server.page.figures import FiguresOverTime
from teamwright.server.run_requests import beside
from teamwright.server.state import MAY_ADMIN, MAY_READ, Admin, Server
from teamwright.values.call_limits import text_size
from teamwright.values.text.secret_patterns import mask_text
from teamwright.values.turns.results import iso
from teamwright.wings import hooks

if TYPE_CHECKING:
    from teamwright.server.state import ServerState

router = APIRouter(prefix="/api", tags=["operations"])
metrics_router = APIRouter(tags=["operations"])
"""At the address where Prometheus looks for it."""
FIGURES, MEMORY = "figures", "memory"
NoteId = Annotated[int, Path(ge=1, lt=2**53)]
MemoryName = Annotated[str, Query(max_length=200, description="TEAM/AGENT, TEAM/, or a shared name")]


class OperationsParts(BaseModel):
    """The parts of the page's operations that this server has."""

    parts: list[str]


@router.get("/operations", responses=responses(), dependencies=[MAY_READ])
async def list_parts(server: Server) -> OperationsParts:
    """Return which parts there are: figures and memory, and those of the wings that are installed."""
    own = [FIGURES, *([] if server.engine.journal.notes is None else [MEMORY])]
    of_wings = [part for find in hooks("operations") if (part := find(server.engine.journal))]
    return OperationsParts(parts=[*own, *of_wings])


@router.get("/figures", responses=responses(), dependencies=[MAY_READ])
async def read_figures(server: Server, days: Annotated[int, Query(ge=1, le=366)] = 30) -> FiguresOverTime:
    """Return runs, tokens and cost of the last days, by day and team, with the pass rate, and by model."""
    found = await server.figures.read(days)
    return FiguresOverTime.model_validate(masked(found.model_dump()))


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


@router.get("/memory", responses=responses(), dependencies=[MAY_READ])
async def list_memories(server: Server) -> list[Memory]:
    """Return the memories that agents keep across runs."""
    found = await _notes_of(server).memories()
    return [Memory(memory=name, notes=count) for name, count in found.items()]


@router.get("/memory/notes", responses=responses(404), dependencies=[MAY_READ])
async def list_notes(
    server: Server,
    memory: MemoryName,
    search: Annotated[str, Query(max_length=200, description="words, the best match first")] = "",
) -> list[FoundNote]:
    """Return the notes of a memory, the newest first, or those with some words."""
    notes = await _memory_of(server, memory)
    return [_shown(one) for one in await notes.search(memory, words_of(search), MOST_NOTES)]


@router.post("/memory/notes", status_code=201, responses=responses(404))
async def add_note(server: Server, visitor: Admin, new: WrittenNote) -> FoundNote:
    """Add a note to a memory; one with the same text is returned if there is one."""
    notes = await _memory_of(server, new.memory)
    return _shown(await _add(notes, new, new.text, visitor.name, MOST_NOTES))


@router.put("/memory/notes/{note}", responses=responses(404))
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


@router.delete("/memory/notes/{note}", responses=responses(404), dependencies=[MAY_ADMIN])
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
