"""What a client asks a run for: a team of the server or that of another run, files, and messages beside fields."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx2

from teamwright.journal import MemoryJournal
from tests.kit.server import serving
from tests.kit.terminal import write_team

NOTES = {"name": "notes.txt", "content": b64encode(b"Three things.").decode()}
SECRET = "api_key=sk-abcdefghijklmnopqrstuvwxyz123456"


async def ended(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    async with client.stream("GET", f"/api/runs/{run_id}/stream?form=events") as stream:
        async for _ in stream.aiter_lines():
            pass
    return (await client.get(f"/api/runs/{run_id}")).json()


async def test_a_run_gets_files_and_another_is_started_like_it(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        new = {"team": "pair", "task": f"Use {SECRET}", "limits": {"tokens": 9000}, "attachments": [NOTES]}
        first = (await client.post("/api/runs", json=new)).json()["run_id"]
        assert [one["name"] for one in (await ended(client, first))["attachments"]] == ["notes.txt"]
        asked = (await client.get(f"/api/runs/{first}/request")).json()
        assert (asked["team"], asked["strategy"], asked["limits"]["tokens"]) == ("pair", "sequential", 9000)
        assert [(one["name"], one["avatar"]) for one in asked["members"]] == [("a", "A"), ("b", "B")]
        assert SECRET not in str(asked)
        file = {"name": "notes.txt", "hash": asked["attachments"][0]["hash"]}
        again = {"like": first, "task": asked["task"], "attachments": [file]}
        second = (await client.post("/api/runs", json=again)).json()["run_id"]
        result = await ended(client, second)
        assert (result["output"], [one["hash"] for one in result["attachments"]]) == ("two", [file["hash"]])
        assert (await server.state.engine.runs.history(second)).task == f"Use {SECRET}"


async def test_the_team_of_a_run_works_again_where_the_folder_no_longer_has_it(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        first = (await client.post("/api/runs", json={"team": "pair", "task": "Go"})).json()["run_id"]
        await ended(client, first)
        (teams / "pair" / "team.yaml").unlink()
        refused = (await client.post("/api/runs", json={"team": "pair", "task": "Go"})).json()["error"]
        assert refused["fields"]["team"] == refused["message"]
        forecast = await client.post("/api/runs/forecast", json={"like": first, "task": "Go on"})
        assert forecast.status_code == 200, forecast.text
        second = (await client.post("/api/runs", json={"like": first, "task": "Go on"})).json()["run_id"]
        assert (await ended(client, second))["output"] == "two"


async def test_what_is_wrong_is_said_of_the_field_that_it_is_about(tmp_path: Path, teams: Path) -> None:
    write_team(teams / "own", "agents: {a: {model: local}}\nteams: {own: {members: [a]}}\n", "rules: []\n")
    picture = {"name": "a.png", "content": b64encode(b"\x89PNG\r\n\x1a\n0000").decode()}
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"team": "pair", "task": "Go", "limits": {"tokens": -5}}, "limits.tokens", "must be at least 0"),
        ({"team": "pair", "task": "Go", "limits": {"usd": "much"}}, "limits.usd", "expects a number"),
        ({"team": "pair", "task": "Go", "attachments": [NOTES | {"content": "?"}]}, "attachments", "not in base64"),
        ({"team": "pair", "task": "Go", "attachments": [NOTES | {"content": ""}]}, "attachments", "is empty"),
        ({"team": "pair", "task": "Go", "attachments": [{"name": "x", "hash": "1"}]}, "attachments", "like"),
        ({"team": "own", "task": "Go", "attachments": [picture]}, "attachments", "reads text only"),
        ({"team": "pair", "task": "  "}, "task", "blank"),
        ({"team": "nowhere", "task": "Go"}, "team", "nowhere"),
        ({"like": "nowhere", "task": "Go"}, "like", "nowhere"),
    ]
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        for body, field, text in wrong:
            for path in ("/api/runs", "/api/runs/forecast"):
                answer = await client.post(path, json=body)
                assert answer.status_code in (400, 404, 422), (path, body, answer.text)
                assert text in answer.json()["error"]["fields"].get(field, ""), (path, body, answer.text)
        for teams_ in ({}, {"team": "pair", "like": "x"}):
            answer = await client.post("/api/runs", json={"task": "Go", **teams_})
            assert "name one team" in answer.json()["error"]["message"]
        assert (await client.get("/api/runs")).json() == []


async def test_a_file_of_another_run_can_not_be_taken_by_its_hash(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        body = {"team": "pair", "task": "Go"}
        with_file = (await client.post("/api/runs", json={**body, "attachments": [NOTES]})).json()["run_id"]
        without = (await client.post("/api/runs", json=body)).json()["run_id"]
        await ended(client, with_file)
        hash = (await client.get(f"/api/runs/{with_file}/request")).json()["attachments"][0]["hash"]
        stolen = {"like": without, "task": "Go", "attachments": [{"name": "notes.txt", "hash": hash}]}
        answer = await client.post("/api/runs", json=stolen)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_name")
