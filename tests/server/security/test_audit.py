from __future__ import annotations

import stat
from pathlib import Path

from teamwright.journal import MemoryJournal
from teamwright.server.security.credentials import Visitor
from tests.kit.server import serving


async def test_every_change_leaves_a_line_with_who_and_from_where(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        runner, reader, admin = server.client("run"), server.client("read"), server.client("admin")
        run_id = (await runner.post("/api/runs", json={"team": "pair", "task": "secret words"})).json()["run_id"]
        assert (await reader.post(f"/api/runs/{run_id}/cancel")).status_code == 403
        await server.client(None).post("/api/session", json={"code": "guess"})
        await reader.get("/api/runs")
        lines = (await admin.get("/api/audit")).json()
        refused = await runner.get("/api/audit")
    assert refused.status_code == 403
    shown = [(one["what"], one["by"], one["role"], one["status"], one["address"]) for one in lines]
    assert shown == [
        ("begin", "", "", 401, "127.0.0.1"),
        ("cancel_run", "read-1", "read", 403, "127.0.0.1"),
        ("start_run", "run-0", "run", 201, "127.0.0.1"),
    ]
    assert lines[1]["on"] == {"run_id": run_id}
    file = tmp_path / "server-audit.jsonl"
    assert "secret words" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_line_names_the_run_that_was_started(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run = (await client.post("/api/runs", json={"team": "pair", "task": "Go"})).json()["run_id"]
        await server.state.engine.runs.wait(run)
        fork = (await client.post(f"/api/runs/{run}/forks", json={"at": 1})).json()["run_id"]
        asked = {"model": "pair", "messages": [{"role": "user", "content": "Go"}]}
        answer = (await client.post("/v1/chat/completions", json=asked)).json()["id"]
        lines = server.state.audit.read(3)
    assert [(one.what, one.on) for one in lines] == [
        ("complete", {"run_id": answer}),
        ("fork_run", {"run_id": run, "fork": fork}),
        ("start_run", {"run_id": run}),
    ]


async def test_a_stranger_can_not_fill_the_audit(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        nobody = server.client(None)
        for _ in range(80):
            await nobody.post("/api/runs", json={})
            await nobody.post("/api/nothing", json={})
        assert len((tmp_path / "server-audit.jsonl").read_text().splitlines()) <= 70


async def test_a_line_says_who_began_a_session(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        code = server.state.sessions.new_code(Visitor("ann", "run"))
        await server.client(None).post("/api/session", json={"code": code})
        (line,) = (await server.client("admin").get("/api/audit")).json()
    assert (line["what"], line["by"], line["role"], line["status"]) == ("begin", "ann", "run", 200)
