from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from teamwright.journal.agent_notes import Note, Notes
from teamwright.journal.postgres.journal import PostgresJournal
from tests.kit.postgres import schema_url


@pytest.fixture
async def notes(postgres_server: str, tmp_path: Path) -> AsyncIterator[Notes]:
    journal = PostgresJournal(schema_url(postgres_server, tmp_path))
    await journal.open()
    yield journal.notes
    await journal.close()


def note(text: str, memory: str = "team/") -> Note:
    return Note(0, memory, text, "ada", "run", 5.0)


async def test_a_note_is_added_once_for_each_key_and_text(notes: Notes) -> None:
    first = await notes.add(note("ships on Fridays"), key="a", most=10)
    assert first is not None
    assert await notes.add(note("ships on Fridays"), key="a", most=10) == first
    assert await notes.add(note("ships on Fridays"), key="b", most=10) == first
    assert await notes.memories() == {"team/": 1}


async def test_a_full_memory_takes_no_more_however_many_write_at_once(notes: Notes) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(lambda number=number: notes.add(note(f"fact {number}"), key=str(number), most=3))
    assert await notes.memories() == {"team/": 3}
    assert await notes.add(note("one more"), key="more", most=3) is None


async def test_a_search_finds_words_then_parts_of_words_then_the_newest(notes: Notes) -> None:
    for number, text in enumerate(("ships on Fridays", "tests run nightly", "ships tests")):
        await notes.add(note(text), key=str(number), most=10)
    best, *_ = await notes.search("team/", ["ships", "tests"], 5)
    assert best.text == "ships tests"
    assert [one.text for one in await notes.search("team/", ["friday"], 5)] == ["ships on Fridays"]
    assert [one.text for one in await notes.search("team/", [], 2)] == ["ships tests", "tests run nightly"]
    assert await notes.search("other", ["ships"], 5) == []


async def test_a_note_is_forgotten_once_for_each_key(notes: Notes) -> None:
    added = await notes.add(note("secret"), key="a", most=10)
    assert added is not None
    assert await notes.forget("team/", added.id, key="x")
    assert await notes.forget("team/", added.id, key="x")
    assert not await notes.forget("team/", added.id, key="y")
    assert not await notes.forget("team/", 2**70, key="y")
    assert await notes.memories() == {}
