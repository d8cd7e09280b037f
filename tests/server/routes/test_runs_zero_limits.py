"""A limit of 0 that arrives over HTTP is a limit: nothing is spent. One that can't be a limit is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from teamwright.journal import MemoryJournal
from tests.kit.server import serving
from tests.kit.terminal import write_team


async def ended(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    """Follow a run to its end, and return its result."""
    async with client.stream("GET", f"/api/runs/{run_id}/stream?form=events") as stream:
        async for _ in stream.aiter_lines():
            pass
    return (await client.get(f"/api/runs/{run_id}")).json()


@pytest.mark.parametrize("limits", [{"tokens": 0}, {"calls": 0}, {"message": {"tokens": 0}}])
async def test_a_run_with_a_limit_of_0_spends_nothing_and_says_which_limit_it_was(
    tmp_path: Path, teams: Path, limits: dict[str, Any]
) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        started = await client.post("/api/runs", json={"team": "pair", "task": "Go", "limits": limits})
        assert started.status_code == 201, started.text
        result = await ended(client, started.json()["run_id"])
        assert (result["status"], result["stop_reason"]) == ("degraded", "budget")
        assert result["usage"]["total_tokens"] == 0
        what = "calls" if "calls" in limits else "tokens"
        assert any(what in warning for warning in result["warnings"]), result["warnings"]


async def test_a_limit_of_no_money_lets_only_what_is_free_pass(tmp_path: Path, teams: Path) -> None:
    priced = "agents: {a: {model: dear}}\nteams: {priced: {members: [a]}}\n"
    models = "models: {dear: {model: 'scripted:replies.yaml', price: {input: 1, output: 1}}}\n"
    write_team(teams / "priced", priced + models, "rules: [{agent: a, reply: one}]\n")
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        endings: dict[str, tuple[str, str]] = {}
        for team in ("pair", "priced"):
            started = await client.post("/api/runs", json={"team": team, "task": "Go", "limits": {"usd": 0}})
            result = await ended(client, started.json()["run_id"])
            endings[team] = result["status"], result["stop_reason"]
        assert endings == {"pair": ("completed", "done"), "priced": ("degraded", "budget")}


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"tokens": -1}, {"message": {"seconds": 0}}])
async def test_what_can_be_no_limit_is_refused_with_its_field(
    tmp_path: Path, teams: Path, limits: dict[str, Any]
) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        refused = await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "limits": limits})
        assert refused.status_code == 422, refused.text
        assert next(iter(limits)) in refused.json()["error"]["message"]
        assert (await server.client("run").get("/api/runs")).json() == []


async def test_a_fork_with_a_limit_of_0_spends_nothing_more(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        await client.post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "one"})
        spent = (await ended(client, "one"))["usage"]["total_tokens"]
        forked = await client.post("/api/runs/one/forks", json={"task": "Go on", "limits": {"calls": 0}})
        assert forked.status_code == 201, forked.text
        result = await ended(client, forked.json()["run_id"])
        assert (result["status"], result["stop_reason"]) == ("degraded", "budget")
        assert 0 == result["usage"]["total_tokens"] < spent


async def test_no_limit_is_raised_to_0(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        await client.post("/api/runs", json={"team": "held", "task": "Go", "run_id": "one", "limits": {"calls": 9}})
        given = await client.post("/api/runs/one/limits", json={"calls": 0})
        assert given.status_code == 409
        assert "raised" in given.json()["error"]["message"]
        assert (await client.post("/api/runs/one/cancel", json={})).status_code == 202


@pytest.mark.lab
async def test_a_forecast_names_the_ceiling_of_0(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        new = {"team": "pair", "task": "Go", "limits": {"tokens": 0, "usd": 0}}
        forecast = (await server.client("run").post("/api/runs/forecast", json=new)).json()
        assert (forecast["ceiling"]["tokens"], forecast["ceiling"]["usd"]) == (0, 0.0)
