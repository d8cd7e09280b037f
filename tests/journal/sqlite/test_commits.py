from pathlib import Path

import pytest

from teamwright.errors import JournalCorrupt
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import body, commit, event, events
from teamwright.values.events.agent import AgentReturned, Body
from teamwright.values.events.run import RunEnded
from tests.journal.journals import opened

ENDED = RunEnded(status="completed", stop_reason="done", seconds=1.0)


def returned(run: str, number: int, texts: dict[Body, str]) -> Batch:
    """A call's return that refers to one body."""
    (one,) = texts
    return Batch([event(run, number, AgentReturned(body=one))], texts)


def stored(journal: SqliteJournal, text: str) -> int:
    """In how many rows a text lies."""
    found = journal._database.writer.execute("SELECT count(*) FROM events WHERE instr(bodies, ?) > 0", (text,))
    return found.fetchone()[0]


def noted(journal: SqliteJournal) -> int:
    return journal._database.writer.execute("SELECT count(*) FROM bodies").fetchone()[0]


async def test_a_body_is_found_by_all_readers_before_and_after_it_is_indexed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    texts: dict[Body, str] = {}
    async with opened(path) as ours, opened(path) as theirs:
        async with ours.drive("run"):
            for number in range(1, 401):
                texts |= (new := body(f"text {number}"))
                await commit(ours, returned("run", number, new))
                if number % 90 == 0:
                    assert await theirs.bodies(texts) == texts
            assert 0 < noted(ours) < 400
        assert await theirs.bodies(texts) == texts


async def test_a_driver_that_takes_a_run_up_notes_what_the_one_before_left(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as ours, opened(path) as theirs:
        async with ours.drive("run"):
            await commit(ours, returned("run", 1, body("left")))
            await commit(ours, returned("run", 2, body("also")))
        before = noted(ours)
        async with theirs.drive("run"):
            await commit(theirs, Batch([event("run", 3, ENDED)], {}))
        assert (before, noted(theirs)) == (0, 2)
        assert await ours.bodies(body("left") | body("also")) == body("left") | body("also")


async def test_what_two_runs_say_is_stored_once(tmp_path: Path) -> None:  # law 10
    async with opened(tmp_path / "journal.db") as journal:
        for run in ("one", "two"):
            await commit(journal, Batch(events(run, [1]), body("the task") | body(f"of {run}")))
            async with journal.drive(run):
                for number in range(2, 302):
                    await commit(journal, returned(run, number, body(f"said {number % 7}.")))
                await commit(journal, Batch([event(run, 302, ENDED)], {}))
        texts = ["the task", "of one", "of two", "said 3."]
        assert [stored(journal, text) for text in texts] == [1, 1, 1, 1]
        for text in texts:
            assert await journal.bodies(body(text)) == body(text)


async def test_a_batch_with_more_bodies_than_events_keeps_them_all(tmp_path: Path) -> None:
    many = {one: text for number in range(40) for one, text in body(f"text {number}").items()}
    async with opened(tmp_path / "journal.db") as journal:
        await commit(journal, Batch(events("run", [1, 2, 3]), many))
        assert await journal.bodies(many) == many
        rows = journal._database.writer.execute("SELECT length(bodies) < 52 FROM events").fetchall()
        assert rows == [(1,), (1,), (0,)]


async def test_what_another_run_refers_to_outlives_the_run_that_brought_it(tmp_path: Path) -> None:  # law 10
    async with opened(tmp_path / "journal.db") as journal:
        async with journal.drive("first"):  # nothing of it is noted yet
            for number in (1, 2, 3):
                await commit(journal, returned("first", number, body(f"text {number}")))
        shared = [AgentReturned(body=one) for number in (1, 2) for one in body(f"text {number}")]
        await commit(journal, Batch([event("fork", n, fact) for n, fact in enumerate(shared, start=1)], {}))
        await commit(journal, returned("fork", 3, body("its own")))
        await journal.delete(["first"])
        kept = body("text 1") | body("text 2") | body("its own")
        assert await journal.bodies(kept) == kept
        with pytest.raises(JournalCorrupt):
            await journal.bodies(body("text 3"))
        assert noted(journal) == 3
        await journal.delete(["fork"])
        assert noted(journal) == 0


async def test_a_body_shared_by_two_runs_stays_when_one_is_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        await commit(journal, returned("first", 1, body("same")))
        async with journal.drive("second"):
            await commit(journal, returned("second", 1, body("other")))
            await commit(journal, returned("second", 2, body("same")))
        assert stored(journal, "same") == 2  # for now
        await journal.delete(["second"])
        assert await journal.bodies(body("same")) == body("same")
        await journal.delete(["first"])
        assert noted(journal) == 0
