"""Checkpoints, forks, differences, KPIs and artifacts over HTTP."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from teamwright import Context, FunctionAgent, Reply, Team, Turn
from teamwright.journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from tests.kit.server import TestServer, serving


async def a_run(server: TestServer) -> str:
    client = server.client("run")
    started = await client.post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "first"})
    assert started.status_code == 201, started.text
    await server.state.engine.runs.wait("first")
    return "/api/runs/first"


async def test_a_run_is_forked_at_a_checkpoint_and_compared(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        path, client = await a_run(server), server.client("run")
        points = (await client.get(f"{path}/checkpoints")).json()
        assert [one["name"] for one in points] == ["start", "step-1", "step-2"]
        forked = await client.post(f"{path}/forks", json={"at": "step-1", "limits": {"tokens": 50_000}})
        assert forked.status_code == 201, forked.text
        run_id = forked.json()["run_id"]
        assert (await server.state.engine.runs.wait(run_id)).status == "completed"
        diff = (await client.get(f"{path}/diff/{run_id}")).json()
        assert [one["key"] for one in diff["turns"]] == ["pair/step-1", "pair/step-2"]
        missing = await client.post(f"{path}/forks", json={"at": "step-7"})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_name")
        assert (await server.client("read").post(f"{path}/forks", json={})).status_code == 403


async def test_a_run_is_measured_against_gates(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        path, client = await a_run(server), server.client("read")
        measured = (await client.get(f"{path}/kpis", params={"gate": "pass_rate>=0.5"})).json()
        assert measured["pass_rate"] == 1.0
        assert [one["passed"] for one in measured["gates"]] == [True]
        wrong = await client.get(f"{path}/kpis", params={"gate": "beauty>1"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "usage")


@pytest.mark.parametrize("rest", ["checkpoints", "diff/nothing", "kpis", "artifacts", "artifacts/abc"])
async def test_what_does_not_exist_is_not_found(tmp_path: Path, rest: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        response = await server.client("read").get(f"/api/runs/nothing/{rest}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "run_not_found")


async def test_an_artifact_is_a_download_and_never_a_page(tmp_path: Path) -> None:
    async def keep(turn: Turn, ctx: Context) -> Reply:
        page = await ctx.workspace.keep("<script>alert(1)</script>", name="../evil.html", media_type="text/html")
        return Reply.of("a", "kept", artifacts=(page,))

    async with serving(MemoryJournal(), tmp_path) as server:
        await server.state.engine.run(Team("t", members=[FunctionAgent("a", keep)]), "Go", run_id="r")
        client = server.client("read")
        (listed,) = (await client.get("/api/runs/r/artifacts")).json()
        assert (listed["name"], listed["media_type"]) == ("../evil.html", "text/html")
        response = await client.get(f"/api/runs/r/artifacts/{listed['hash']}")
        assert response.text == "<script>alert(1)</script>"
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"] == "attachment; filename*=UTF-8''.._evil.html"
        assert "sandbox" in response.headers["content-security-policy"]
        task = (await server.state.engine.journal.read("r"))[0].fact
        other = await client.get(f"/api/runs/r/artifacts/{getattr(task, 'task', '')}")
        assert other.status_code == 404, "a hash alone must not open a text of the journal"


async def test_a_fork_with_an_edited_task_keeps_its_secrets(tmp_path: Path, teams: Path) -> None:
    key = "sk-abcdefghij0123456789"
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client, runs = server.client("run"), server.state.engine.runs
        work = {"team": "pair", "task": f"Use {key}.\nBe quick.", "run_id": "r"}
        assert (await client.post("/api/runs", json=work)).status_code == 201
        await runs.wait("r")
        forked = await client.post("/api/runs/r/forks", json={"at": 1, "task": "Use [redacted].\nBe slow."})
        assert forked.status_code == 201, forked.text
        await runs.wait(forked.json()["run_id"])
        assert (await runs.history(forked.json()["run_id"])).task == f"Use {key}.\nBe slow."
        lost = await client.post("/api/runs/r/forks", json={"at": 1, "task": "Take [redacted]."})
        assert lost.status_code == 400


@pytest.mark.parametrize("at", [10**30, -1, 10**6, "\u0000", "nowhere"])
async def test_a_fork_from_nowhere_is_refused(tmp_path: Path, teams: Path, at: object) -> None:
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        client = server.client("run")
        await client.post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "r"})
        await server.state.engine.runs.wait("r")
        refused = await client.post("/api/runs/r/forks", json={"at": at})
        assert refused.status_code in (400, 404, 409, 422), refused.text


async def test_several_runs_are_exported_as_one_file(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        await a_run(server)
        client = server.client("run")
        await client.post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "second"})
        await server.state.engine.runs.wait("second")
        answer = await client.get("/api/export", params={"run": ["first", "second", "first"]})
        with ZipFile(BytesIO(answer.content)) as archive:
            assert archive.namelist() == ["first.html", "second.html"]
            assert b"second" in archive.read("second.html")
        assert (await client.get("/api/export", params={"run": ["first", "gone"]})).status_code == 404
        assert (await client.get("/api/export")).status_code == 422
