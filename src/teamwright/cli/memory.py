"""`teamwright memory`: lists and removes the notes that agents keep across runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.open import with_journal
from teamwright.cli.terminal.output import Json, Out, check_out, one_line, say, write_json, write_result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.journal.stores import Note, Notes

app = typer.Typer(
    help="List and remove the notes that agents keep across runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Memory = Annotated[
    str, typer.Argument(metavar="MEMORY", help="The name of a memory: TEAM/AGENT, TEAM/, or a shared name.")
]
EVERY_NOTE = 1_000_000


@app.command("list")
def list_notes(
    memory: Annotated[
        str | None, typer.Argument(metavar="[MEMORY]", help="A memory, to list its notes; without it, all memories.")
    ] = None,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD…]", help="Only notes with these words, the best match first.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """List memories, or the notes of one: newest first, or those that match words."""
    from teamwright.journal.stores import words_of

    check_out(out)

    async def work(journal: Journal) -> int:
        notes = _notes_of(journal)
        if memory is not None:
            return await _write(notes, memory, words_of(" ".join(words or ())), out, json=json)
        found = await notes.memories()
        if json:
            write_json([{"memory": name, "notes": count} for name, count in found.items()], out)
        elif found:
            write_result("\n".join(f"{one_line(name)}  {count}" for name, count in found.items()), out)
        else:
            say("There are no notes yet; an agent with  memory: own  can write some.")
        return 0

    return with_journal(work)


@app.command()
def forget(
    memory: Memory, note: Annotated[int, typer.Argument(metavar="ID", help="The id of a note.")], json: Json = False
) -> int:
    """Remove a note."""

    async def work(journal: Journal) -> int:
        from secrets import token_hex

        from teamwright.errors import UsageError

        if not await _notes_of(journal).forget(memory, note, key=token_hex()):
            raise UsageError(f"There is no note {note} in {memory!r}; list them with  teamwright memory list {memory}")
        if json:
            write_json({"memory": memory, "forgotten": note})
        else:
            write_result(f"forgotten {note}")
        return 0

    return with_journal(work)


def _notes_of(journal: Journal) -> Notes:
    from teamwright.errors import UsageError

    if (notes := journal.notes) is None:
        raise UsageError("This journal keeps no notes.")
    return notes


async def _write(notes: Notes, memory: str, words: Sequence[str], out: Path | None, *, json: bool) -> int:
    """Print the notes of a memory with these words; a memory that is not there gets the nearest names."""
    from teamwright.errors import nearest

    found = await notes.search(memory, words, EVERY_NOTE)
    if json:
        write_json([_to_json(note) for note in found], out)
    elif found:
        write_result("\n".join(f"{note.id}  {one_line(note.text)}" for note in found), out)
    elif memory in (known := await notes.memories()):
        say("No notes found.")
    else:
        say(f"No notes found: there is no memory {memory!r}; {nearest(memory, known)}")
    return 0


def _to_json(note: Note) -> dict[str, JsonValue]:
    from teamwright.values.turns.results import iso

    return {"id": note.id, "text": note.text, "author": note.author, "run_id": note.run_id, "time": iso(note.time)}
