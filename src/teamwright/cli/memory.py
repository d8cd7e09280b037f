"""`teamwright memory`: lists and removes the notes that agents keep across runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.output import Json, Out, check_out, one_line, say, write_json, write_result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from teamwright.journal.agent_notes import Note, Notes
    from teamwright.journal.protocol import Journal

EVERY_NOTE = 1_000_000


def memory(
    memory: Annotated[
        str | None,
        typer.Argument(metavar="[MEMORY]", help="List the notes of this memory: TEAM/AGENT, TEAM/, or a shared name."),
    ] = None,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD…]", help="Only notes with these words, the best match first.")
    ] = None,
    remove: Annotated[
        int | None, typer.Option("--remove", metavar="ID", help="Remove the note with this id from the memory.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """List the memories that agents keep across runs, or the notes of one, newest first; or remove a note.

    Examples:
      teamwright memory
      teamwright memory baker flour
      teamwright memory baker --remove 3
    """
    from teamwright.errors import UsageError

    check_out(out)
    if remove is not None and (memory is None or words):
        raise UsageError("--remove needs the memory of the note, and no words:  teamwright memory MEMORY --remove ID")

    async def work(journal: Journal) -> int:
        notes = _notes_of(journal)
        if memory is None:
            await _list_memories(notes, out, json=json)
        elif remove is not None:
            await _remove(notes, memory, remove, out, json=json)
        else:
            await _list_notes(notes, memory, words or (), out, json=json)
        return 0

    return with_journal(work)


def _notes_of(journal: Journal) -> Notes:
    from teamwright.errors import UsageError

    if (notes := journal.notes) is None:
        raise UsageError("This journal keeps no notes.")
    return notes


async def _list_memories(notes: Notes, out: Path | None, *, json: bool) -> None:
    found = await notes.memories()
    if json:
        write_json([{"memory": name, "notes": count} for name, count in found.items()], out)
    elif found:
        write_result("\n".join(f"{one_line(name)}  {count}" for name, count in found.items()), out)
    else:
        say("There are no notes yet; an agent with  memory: own  can write some.")


async def _list_notes(notes: Notes, memory: str, words: Sequence[str], out: Path | None, *, json: bool) -> None:
    """Print the notes of a memory with these words; a memory that is not there gets the nearest names."""
    from teamwright.errors import nearest
    from teamwright.journal.agent_notes import words_of

    found = await notes.search(memory, words_of(" ".join(words)), EVERY_NOTE)
    if json:
        write_json([_to_json(note) for note in found], out)
    elif found:
        write_result("\n".join(f"{note.id}  {one_line(note.text)}" for note in found), out)
    elif memory in (known := await notes.memories()):
        say("No notes found.")
    else:
        say(f"No notes found: there is no memory {memory!r}; {nearest(memory, known)}")


async def _remove(notes: Notes, memory: str, note: int, out: Path | None, *, json: bool) -> None:
    from secrets import token_hex

    from teamwright.errors import UsageError

    if not await notes.forget(memory, note, key=token_hex()):
        raise UsageError(f"There is no note {note} in {memory!r}; list them with  teamwright memory {memory}")
    if json:
        write_json({"memory": memory, "removed": note}, out)
    else:
        write_result(f"removed {note}", out)


def _to_json(note: Note) -> dict[str, JsonValue]:
    from teamwright.values.turns.results import iso

    return {"id": note.id, "text": note.text, "author": note.author, "run_id": note.run_id, "time": iso(note.time)}
