"""Events and interventions as text: what is decoded is what was encoded, and damage is reported as such."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teamwright import Answer, Event
from teamwright.errors import JournalCorrupt, JournalTooNew
from teamwright.events import AgentAsked, AgentReturned
from teamwright.journal import (
    body_references,
    decode_event,
    decode_intervention,
    encode_event,
    encode_intervention,
)
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.people import Cancel, Pause
from teamwright.testing.journal import body, commit, event, events
from teamwright.testing.trial import a_fact_of_each_kind
from teamwright.values.people import Answered, Intervention, Mark
from teamwright.values.turns.messages import digest
from tests.journal.journals import opened


def test_an_event_of_each_kind_is_decoded_as_it_was() -> None:
    for number, fact in enumerate(a_fact_of_each_kind()):
        event = Event("run", number, 1_700_000_000.25, "team/a", f"place-{number}", fact)
        text = encode_event(event)
        assert "\n" not in text
        assert decode_event("run", text) == event


@pytest.mark.parametrize(
    "sent", [Pause(by="ada"), Cancel(reason="x"), Mark(name="m"), Answered(key="a/b", answer=Answer(text="yes"))]
)
def test_an_intervention_is_decoded_as_it_was(sent: Intervention) -> None:
    assert decode_intervention("run", 1, encode_intervention(sent)) == sent


ROW = json.loads(encode_event(Event("run", 3, 1.5, "a", "b", a_fact_of_each_kind()[0])))


@pytest.mark.parametrize(
    "text", ["", "no JSON", "{}", "[]", json.dumps(ROW[:6]), json.dumps(["3", *ROW[1:]]), json.dumps([-1, *ROW[1:]]),
             json.dumps([*ROW[:4], "no.kind", *ROW[5:]]), json.dumps([*ROW[:5], "no JSON", ROW[6]])]
)  # fmt: skip
def test_a_damaged_event_is_reported(text: str) -> None:
    with pytest.raises(JournalCorrupt, match="run 'run' is damaged"):
        decode_event("run", text)


def test_an_event_of_a_later_version_is_reported_as_such() -> None:
    with pytest.raises(JournalTooNew, match="newer version"):
        decode_event("run", json.dumps([*ROW[:6], 999]))


def test_the_bodies_of_an_event_are_found() -> None:
    body = digest("text")
    assert body_references(Event("run", 1, 1.0, "", "", AgentReturned(body=body))) == {body}


def test_the_digest_of_a_turn_is_no_body() -> None:
    task, turn = digest("task"), digest("turn")
    asked = AgentAsked(member="a", member_kind="function", turn=1, task=task, length=0, digest=turn)
    assert body_references(Event("run", 1, 1.0, "", "", asked)) == {task}


async def test_a_row_that_is_no_json_is_reported_as_damage(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        await commit(journal, Batch(events("run", [1, 2]), {}))
        journal._database.writer.execute("UPDATE events SET data = '{\"domain' WHERE position % 4294967296 = 2")
        with pytest.raises(JournalCorrupt, match=r"run 'run' is damaged \(event 2 "):
            await journal.read("run")
        assert await journal.read("run", limit=1) == events("run", [1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("kind = 'team.dreamt'", "unknown kind 'team.dreamt'"),
        ("data = '{}'", "can't be read as 'custom'"),
        ('data = \'{"domain":"d","name":"n","mood":1}\'', "can't be read as 'custom'"),
    ],
)
async def test_damage_and_an_event_of_a_later_version_are_distinguished(
    tmp_path: Path, change: str, words: str
) -> None:
    async with opened(tmp_path / "journal.db") as journal:  # D-08
        await commit(journal, Batch(events("run", [1]), {}))
        journal._database.writer.execute(f"UPDATE events SET {change}")
        with pytest.raises(JournalCorrupt, match=words):
            await journal.read("run")
        journal._database.writer.execute("UPDATE events SET version = 99")
        with pytest.raises(JournalTooNew, match=r"version 99.*update Teamwright"):
            await journal.read("run")


async def test_a_run_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        for run in ("bad", "good"):
            await commit(journal, Batch(events(run, [1, 2]), {}))
        journal._database.writer.execute("UPDATE events SET kind = 'team.dreamt' WHERE position < 2 << 32")
        with pytest.raises(JournalCorrupt):
            await journal.read("bad")
        good, bad = await journal.runs()
        assert (good.id, bad.id) == ("good", "bad")


@pytest.mark.parametrize("unsaved", [True, False], ids=["an event", "its row"])
async def test_a_run_that_cannot_be_summed_up_is_marked_in_the_list(tmp_path: Path, unsaved: bool) -> None:  # S-08
    async with opened(tmp_path / "journal.db") as journal:
        for run in ("bad", "good"):
            await commit(journal, Batch(events(run, [1]), {}))
        async with journal.drive("bad"):
            await commit(journal, Batch(events("bad", [2]), {}))
        journal._database.writer.execute(
            f"UPDATE events SET data = 'x' WHERE position = {(1 << 32) + 2}"
            if unsaved
            else "UPDATE runs SET number = 'x' WHERE id = 'bad'"
        )
        good, bad = await journal.runs()
        assert (good.id, good.damage) == ("good", None)
        assert bad.id == "bad"
        assert "run 'bad' is damaged" in (bad.damage or "")
        assert await journal.find("bad") == bad
        assert "damage" not in good.to_json()
        assert bad.to_json()["damage"] == bad.damage


async def test_a_letter_of_a_later_version_is_reported(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        insert = "INSERT INTO inbox (run_id, data) VALUES ('run', ?)"
        journal._database.writer.execute(insert, ('{"kind":"sing","version":99}',))
        with pytest.raises(JournalTooNew, match="inbox of run 'run'"):
            await journal.inbox("run")


@pytest.mark.parametrize("data", ['{"kind":"sing"}', "", "nothing", '{"kind":"pause"', "[" * 5000, b"\xff", 7])
async def test_a_damaged_letter_is_reported_as_damage(tmp_path: Path, data: object) -> None:  # D-08
    async with opened(tmp_path / "journal.db") as journal:
        journal._database.writer.execute("INSERT INTO inbox (run_id, data) VALUES ('run', ?)", (data,))
        with pytest.raises(JournalCorrupt, match="entry 1 of its inbox"):
            await journal.inbox("run")
        assert await journal.inbox("other") == []


@pytest.mark.parametrize("altered", ["another text", "", "\x1e" * 50, "no hash at all", b"\xff\x00", 7])
async def test_a_text_that_was_altered_is_not_handed_out(tmp_path: Path, altered: object) -> None:  # S-08
    async with opened(tmp_path / "journal.db") as journal:
        texts = body("as it was")
        (one,) = texts
        await commit(journal, Batch([event("run", 1, AgentReturned(body=one))], texts))
        value = f"{one}{altered}" if altered == "another text" else altered
        journal._database.writer.execute("UPDATE events SET bodies = ?", (value,))
        with pytest.raises(JournalCorrupt, match="missing or altered"):
            await journal.bodies(texts)


async def test_a_note_that_leads_nowhere_does_not_cost_the_text(tmp_path: Path) -> None:  # S-08
    async with opened(tmp_path / "journal.db") as journal:
        texts = body("the only copy")
        (one,) = texts
        insert = "INSERT INTO bodies VALUES (?, 99)"
        journal._database.writer.execute(insert, (bytes.fromhex(one),))
        await commit(journal, Batch([event("run", 1, AgentReturned(body=one))], texts))
        assert await journal.bodies(texts) == texts


@pytest.mark.parametrize("body", ["", "no hash", "0" * 39, "0" * 41, "\ud800" * 40, "A" * 40])
async def test_a_reference_that_is_no_hash_is_reported_as_damage(tmp_path: Path, body: str) -> None:  # S-08
    async with opened(tmp_path / "journal.db") as journal:
        with pytest.raises(JournalCorrupt, match="missing or altered"):
            await journal.bodies([body])


async def test_a_text_that_is_no_utf8_stays_with_its_run(tmp_path: Path) -> None:  # S-08
    async with opened(tmp_path / "journal.db") as journal:
        texts = body("shared") | body("kept")
        for run in ("bad", "good"):
            await commit(journal, Batch(events(run, [1]), texts))
        write = journal._database.writer.execute
        write("UPDATE events SET scope = CAST(x'fffe' AS TEXT), data = CAST(x'ff' AS TEXT) WHERE position < 2 << 32")
        write("UPDATE runs SET team = CAST(x'fffe' AS TEXT) WHERE id = 'bad'")
        with pytest.raises(JournalCorrupt, match="not UTF-8"):
            await journal.read("bad")
        assert await journal.read("good") == events("good", [1])
        assert [run.id for run in await journal.runs()] == ["good", "bad"]
        assert await journal.bodies(texts) == texts
        await commit(journal, Batch(events("good", [2]), {}))
        await journal.delete(["bad"])
        assert [run.id for run in await journal.runs()] == ["good"]
        write("UPDATE events SET bodies = CAST(x'ff' AS TEXT) WHERE position > 2 << 32")
        await journal.delete(["good"])
        assert await journal.runs() == []


async def test_a_database_with_triggers_or_other_tables_is_refused(tmp_path: Path) -> None:  # S-08
    for number, change in enumerate((
        "CREATE TRIGGER t AFTER INSERT ON inbox BEGIN DELETE FROM runs; END", "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE other (x)", "DROP TABLE bodies", "ALTER TABLE runs DROP COLUMN usd",
    )):  # fmt: skip
        path = tmp_path / f"{number}.db"
        async with opened(path) as journal:
            journal._database.writer.execute(change)
        with pytest.raises(JournalCorrupt, match="tables of a journal"):
            await SqliteJournal(path).open()


async def test_a_layout_that_is_no_utf8_is_reported_clearly(tmp_path: Path) -> None:  # S-08
    path = tmp_path / "journal.db"
    async with opened(path) as journal:
        await commit(journal, Batch(events("run", [1]), {}))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE runs", b"CREATE \xc4ABLE runs"))
    with pytest.raises(JournalCorrupt, match="its layout can't be read"):
        await SqliteJournal(path).open()
