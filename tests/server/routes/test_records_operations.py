"""What the operator of a server looks after: which parts there are, figures, and the memories of agents."""

from __future__ import annotations

from pathlib import Path

from teamwright.journal import MemoryJournal
from teamwright.journal.agent_notes import Note
from tests.kit.server import serving
from tests.server.conftest import teams

__all__ = ["teams"]
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


async def write_notes(journal: MemoryJournal, *texts: str) -> None:
    for text in texts:
        await journal.notes.add(Note(0, "bakery/baker", text, "baker", "run-1", 0.0), key=text, most=1000)


async def test_figures_of_runs_are_read_with_their_days(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        assert {"figures", "memory"} <= set((await client.get("/api/operations")).json()["parts"])
        started = await client.post("/api/runs", json={"team": "pair", "task": "Go"})
        await server.state.engine.runs.wait(started.json()["run_id"])
        found = (await server.client("read").get("/api/figures", params={"days": 7})).json()
        assert [(one["team"], one["runs"], one["completed"], one["passed"]) for one in found["teams"]] == [
            ("pair", 1, 1, 2)
        ]
        assert (await client.get("/api/figures", params={"days": 0})).status_code == 422
        assert (await server.client(None).get("/api/figures")).status_code == 401


async def test_metrics_are_read_by_who_may_read_and_are_those_of_the_ledger(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        assert (await server.client(None).get("/metrics")).status_code == 401
        started = await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go"})
        result = await server.state.engine.runs.wait(started.json()["run_id"])
        page = await server.client("read").get("/metrics")
        assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = page.text.splitlines()
        assert 'teamwright_runs_finished_total{status="completed"} 1' in lines
        counted = [float(line.split()[1]) for line in lines if line.startswith("teamwright_tokens_total")]
        assert sum(counted) == result.usage.total_tokens > 0
        assert "teamwright_telemetry_spans_total" not in page.text


async def test_notes_are_listed_by_readers_and_changed_by_admins(tmp_path: Path) -> None:
    journal = MemoryJournal()
    async with serving(journal, tmp_path) as server:
        await write_notes(journal, "Rye needs time.", f"The key is {KEY}\nand the oven is hot.")
        reader, admin = server.client("run"), server.client("admin")
        assert (await reader.get("/api/memory")).json() == [{"memory": "bakery/baker", "notes": 2}]
        where = {"memory": "bakery/baker"}
        secret, rye = (await reader.get("/api/memory/notes", params=where)).json()
        assert (rye["text"], rye["author"], rye["run_id"]) == ("Rye needs time.", "baker", "run-1")
        assert KEY not in secret["text"]
        found = (await reader.get("/api/memory/notes", params={**where, "search": "rye"})).json()
        assert [one["id"] for one in found] == [rye["id"]]

        new = {**where, "text": "Rye needs a day."}
        for answer in (
            await reader.put(f"/api/memory/notes/{rye['id']}", json=new),
            await reader.post("/api/memory/notes", json=new),
            await reader.delete(f"/api/memory/notes/{rye['id']}", params=where),
        ):
            assert answer.status_code == 403, answer.text
        edited = (await admin.put(f"/api/memory/notes/{rye['id']}", json=new)).json()
        assert edited["text"] == "Rye needs a day."
        assert edited["author"].startswith("admin")
        changed = {**where, "text": secret["text"].replace("hot", "cold")}
        assert (await admin.put(f"/api/memory/notes/{secret['id']}", json=changed)).status_code == 200
        added = await admin.post("/api/memory/notes", json={**where, "text": "Salt late."})
        assert added.status_code == 201
        texts = {one.text for one in await journal.notes.search("bakery/baker", (), 10)}
        assert texts == {"Rye needs a day.", f"The key is {KEY}\nand the oven is cold.", "Salt late."}
        removed = await admin.delete(f"/api/memory/notes/{edited['id']}", params=where)
        assert removed.json() == {"memory": "bakery/baker", "removed": edited["id"]}
        lines = (await admin.get("/api/audit")).json()
        assert [one["what"] for one in lines][:3] == ["remove_note", "add_note", "edit_note"]


async def test_a_note_that_is_saved_unchanged_stays(tmp_path: Path) -> None:
    journal = MemoryJournal()
    async with serving(journal, tmp_path) as server:
        await write_notes(journal, "Rye needs time.")
        where, client = {"memory": "bakery/baker"}, server.client("admin")
        (note,) = (await client.get("/api/memory/notes", params=where)).json()
        same = await client.put(f"/api/memory/notes/{note['id']}", json={**where, "text": note["text"]})
        assert same.json()["id"] == note["id"]
        assert [one.text for one in await journal.notes.search("bakery/baker", (), 10)] == ["Rye needs time."]


async def test_what_is_wrong_with_a_note_is_said_beside_its_text(tmp_path: Path) -> None:
    journal = MemoryJournal()
    async with serving(journal, tmp_path) as server:
        await write_notes(journal, "Rye needs time.")
        client, where = server.client("admin"), {"memory": "bakery/baker"}
        for text, status, words in (
            ("  ", 400, "empty"),
            ("é" * 3000, 400, "longer than 4000 bytes"),
            ("x" * 4001, 422, "at most 4000 are possible"),
            ("a\0b", 422, "characters that are not possible"),
            ("The mask [redacted]", 400, "mask of a secret"),
        ):
            answer = await client.put("/api/memory/notes/1", json={**where, "text": text})
            assert answer.status_code == status, answer.text
            assert words in answer.json()["error"]["fields"]["text"]
        for answer in (
            await client.put("/api/memory/notes/9", json={**where, "text": "x"}),
            await client.delete("/api/memory/notes/9", params=where),
            await client.get("/api/memory/notes", params={"memory": "bakery/bakr"}),
            await client.post("/api/memory/notes", json={"memory": "none", "text": "x"}),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_name"), answer.text
