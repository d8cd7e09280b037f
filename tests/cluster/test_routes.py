"""Runs that are submitted to a queue over HTTP, and driven by workers."""

from __future__ import annotations

from pathlib import Path

from teamwright.journal import MemoryJournal
from teamwright.journal.postgres.cluster_tables import ScheduleRow
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.tenant_budgets import PICODOLLARS
from tests.kit.server import serving
from tests.kit.workers import Cluster, eventually
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


async def test_workers_queues_schedules_and_budgets_are_shown_and_a_schedule_is_removed(
    cluster: Cluster, tmp_path: Path, teams: Path
) -> None:
    cluster.hold.touch()
    await cluster.submit("one", "two")
    await cluster.submit("other", queue="slow")
    cluster.start("--at-once", "1", "--name", "w1")
    await eventually(lambda: len(cluster.effects) == 1, "a run is driven")
    await cluster.journal.budgets.put("bakery", 50 * PICODOLLARS, None, "day")
    nightly = ScheduleRow("nightly", "0 7 * * *", "UTC", "slow", 0, 1.0, 4_000_000_000.0)
    assert await cluster.journal.cluster.schedules.add(nightly, "{}")
    async with serving(PostgresJournal(cluster.url), tmp_path, [teams]) as server:
        reader, admin = server.client("read"), server.client("admin")
        assert "cluster" in (await reader.get("/api/operations")).json()["parts"]
        found = (await reader.get("/api/cluster")).json()
        assert found["open_runs"] == 3
        assert [(one["name"], one["state"], one["at_once"]) for one in found["workers"]] == [("w1", "ready", 1)]
        queues = {one["name"]: (one["queued"], one["claimed"]) for one in found["queues"]}
        assert queues == {"default": (1, 1), "default.branches": (0, 0), "slow": (1, 0)}
        assert [(one["name"], one["next"]) for one in found["schedules"]] == [("nightly", "2096-10-02T07:06:40+00:00")]
        assert [(one["name"], one["usd"], one["left_usd"]) for one in found["budgets"]] == [("bakery", 50.0, 50.0)]
        assert (await server.client("run").delete("/api/cluster/schedules/nightly")).status_code == 403
        assert (await admin.delete("/api/cluster/schedules/nightly")).json() == {"removed": "nightly"}
        again = await admin.delete("/api/cluster/schedules/nightly")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "unknown_name")
        assert (await reader.get("/api/cluster")).json()["schedules"] == []
    cluster.hold.unlink()
    await cluster.completed("one", "two")


async def test_a_server_on_a_file_has_no_queues(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        new = {"team": "pair", "task": "Go"}
        refused = await server.client("run").post("/api/queues/default/runs", json=new)
        assert refused.status_code == 400
        assert "need a journal in Postgres" in refused.json()["error"]["message"]
        reader = server.client("read")
        assert "cluster" not in (await reader.get("/api/operations")).json()["parts"]
        assert (await reader.get("/api/cluster")).status_code == 400
