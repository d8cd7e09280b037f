"""Runs that are submitted to a queue over HTTP, and driven by workers."""

from __future__ import annotations

from pathlib import Path

from teamwright.journal import MemoryJournal
from teamwright.journal.postgres.journal import PostgresJournal
from tests.kit.server import serving
from tests.kit.workers import Cluster
from tests.server.conftest import teams

__all__ = ["teams"]


async def test_a_run_is_submitted_with_a_token_and_driven_by_a_worker(
    cluster: Cluster, tmp_path: Path, teams: Path
) -> None:
    async with serving(PostgresJournal(cluster.url), tmp_path, [teams]) as server:
        client, new = server.client("run"), {"team": "pair", "task": "Go", "run_id": "one"}
        submitted = await client.post("/api/queues/default/runs", json=new)
        assert (submitted.status_code, submitted.json()) == (
            202,
            {"run_id": "one", "queue": "default", "is_new": True},
        ), submitted.text
        again = await client.post("/api/queues/default/runs", json=new)
        assert (again.status_code, again.json()["is_new"]) == (202, False)
        later = await client.post("/api/queues/default/runs", json={**new, "run_id": "later", "after": 3600})
        assert later.status_code == 202
        lines = (await server.client("admin").get("/api/audit")).json()
        assert [line["on"].get("run_id") for line in lines if line["what"] == "submit_run"] == ["later", "one", "one"]
        cluster.start()
        await cluster.completed("one")
        assert (await client.get("/api/runs/one")).json()["output"] == "two"
        assert (await client.get("/api/runs/later")).json()["status"] == "queued"
        for path, changed, status, words in (
            ("default.branches", {}, 400, "child runs"),
            ("no such queue", {}, 400, "queue"),
            ("default", {"team": "nobody"}, 404, "nobody"),
            ("default", {"task": "Stay"}, 409, "its task, 'Go' there and 'Stay' here"),
            ("default", {"run_id": "x", "budget": "none"}, 400, "There is no budget"),
        ):
            refused = await client.post(f"/api/queues/{path}/runs", json={**new, **changed})
            assert refused.status_code == status, refused.text
            assert words in refused.json()["error"]["message"]
        assert (await server.client("read").post("/api/queues/default/runs", json=new)).status_code == 403
        assert (await server.client(None).post("/api/queues/default/runs", json=new)).status_code == 401


async def test_a_server_on_a_file_has_no_queues(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        new = {"team": "pair", "task": "Go"}
        refused = await server.client("run").post("/api/queues/default/runs", json=new)
        assert refused.status_code == 400
        assert "need a journal in Postgres" in refused.json()["error"]["message"]
