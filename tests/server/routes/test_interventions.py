"""What people change in a live run, over HTTP; each is recorded with the name of the visitor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from teamwright.journal import MemoryJournal
from tests.kit.server import TestServer, serving

SLOW = {"team": "slow", "task": "Go"}


async def events(server: TestServer, run_id: str, kind: str) -> list[dict[str, Any]]:
    found = (await server.client("read").get(f"/api/runs/{run_id}/events")).json()
    return [one for one in found if one["kind"] == kind]


async def test_a_message_is_accepted_and_recorded_with_its_sender(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        run_id = (await server.client("run").post("/api/runs", json=SLOW)).json()["run_id"]
        ann = server.client("answer")
        said = await ann.post(f"/api/runs/{run_id}/messages", json={"text": "Be brief.", "to": "b"})
        assert (said.status_code, said.json()["status"]) == (202, "accepted"), said.text
        (recorded,) = await events(server, run_id, "run.intervened")
        assert recorded["number"] == said.json()["number"]
        assert "answer-1" in str(recorded)
        lost = await ann.post(f"/api/runs/{run_id}/messages", json={"text": "Be brief.", "to": "nobody"})
        assert (lost.status_code, lost.json()["error"]["code"]) == (409, "intervention_refused")


async def test_a_run_is_paused_resumed_and_cancelled(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "held", "task": "Go"})).json()["run_id"]
        assert (await client.post(f"/api/runs/{run_id}/pause")).status_code == 202
        assert (await server.state.engine.runs.wait(run_id)).status == "paused"
        assert (await client.post(f"/api/runs/{run_id}/pause")).status_code == 409
        assert (await client.post(f"/api/runs/{run_id}/resume")).status_code == 202
        assert (await client.post(f"/api/runs/{run_id}/cancel", json={"reason": "enough"})).status_code == 202
        assert (await server.state.engine.runs.wait(run_id)).status == "cancelled"
        assert (await client.post(f"/api/runs/{run_id}/cancel")).status_code == 409


async def test_members_and_limits_are_changed(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={**SLOW, "limits": {"tokens": 5000}})).json()["run_id"]
        assert (await client.post(f"/api/runs/{run_id}/members/b/pause")).status_code == 202
        assert (await client.post(f"/api/runs/{run_id}/members/b/resume")).status_code == 202
        raised = await client.post(f"/api/runs/{run_id}/limits", json={"tokens": 9000})
        assert raised.status_code == 202, raised.text
        assert (await client.post(f"/api/runs/{run_id}/limits", json={})).status_code == 400
        assert (await events(server, run_id, "budget.raised"))[0]["limits"]["tokens"] == 9000


async def test_a_member_comes_from_a_folder_of_the_server_or_is_a_plain_model(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json=SLOW)).json()["run_id"]
        path = f"/api/runs/{run_id}/members"
        assert (await client.post(path, json={"name": "x", "function": "os:system"})).status_code == 422
        assert (await client.post(path, json={"name": "x", "spec": {"function": "os:system"}})).status_code == 422
        evil = {"name": "x", "spec": {"model": {"base_url": "http://evil"}}}
        assert (await client.post(path, json=evil)).status_code == 422
        assert (await client.post(path, json={"name": "x"})).status_code == 400
        assert (await client.post(path, json={"name": "x", "source": "../etc"})).status_code == 404
        assert (await client.post(path, json={"name": "x", "source": "pair"})).status_code == 404


async def test_the_difference_of_a_plan_is_shown_before_it_is_sent(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json=SLOW)).json()["run_id"]
        shown = await client.post(f"/api/runs/{run_id}/plan/difference", json={"plan": {"steps": []}})
        assert shown.status_code == 200
        assert (await client.get(f"/api/runs/{run_id}/plan")).json() == {"plan": None}
        assert "+{" in shown.json()["difference"]
        refused = await client.post(f"/api/runs/{run_id}/plan", json={"plan": {"steps": []}})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "intervention_refused"), refused.text


async def test_a_forecast_names_the_ceiling_and_starts_nothing(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        work = {"team": "pair", "task": "Go", "limits": {"tokens": 4000}}
        forecast = (await client.post("/api/runs/forecast", json=work)).json()
        assert forecast["ceiling"]["tokens"] == 4000
        assert (await client.get("/api/runs")).json() == []


async def test_runs_are_filtered_and_searched(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        for task in ("Paint the house", "Write a poem"):
            run_id = (await client.post("/api/runs", json={"team": "pair", "task": task})).json()["run_id"]
            await server.state.engine.runs.wait(run_id)

        async def found(query: str) -> list[str]:
            return [one["task"] for one in (await client.get(f"/api/runs?{query}")).json()]

        assert await found("search=house+PAINT") == ["Paint the house"]
        assert await found("status=completed&limit=1") == ["Write a poem"]
        assert await found("offset=1") == ["Paint the house"]
        assert await found("status=paused") == []
        assert await found("team=other") == []
