from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import websockets

from teamwright import FunctionAgent, Team, Turn
from teamwright.journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from tests.kit.server import TestServer, serving


async def a_run(server: TestServer) -> str:
    members = [FunctionAgent(name, lambda turn: f"said <script>alert(1)</script> {turn.number}") for name in "ab"]
    await server.state.engine.run(Team("pair", members=members), "Go", run_id="r")
    return "/api/runs/r"


async def test_a_page_reads_the_events_of_a_run_from_any_number(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        path, client = await a_run(server), server.client("read")
        whole = (await client.get(f"{path}/page-events")).json()
        assert [one["kind"] for one in whole][:2] == ["run", "team_formed"]
        assert [one["kind"] for one in whole][-1] == "run"
        for after in range(whole[-1]["number"] + 2):
            rest = (await client.get(f"{path}/page-events", params={"after": after})).json()
            assert rest == [one for one in whole if one["number"] > after]
        first = (await client.get(f"{path}/page-events", params={"limit": 3})).json()
        assert first == [one for one in whole if one["number"] <= 3]


async def test_the_page_events_of_an_unknown_run_are_not_found(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("read")
        response = await client.get("/api/runs/nothing/page-events")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "run_not_found")
        beyond = await client.get(f"{await a_run(server)}/page-events", params={"after": 10**30})
        assert (beyond.status_code, beyond.json()) == (200, [])
        for wrong in ({"after": -1}, {"after": "x"}, {"limit": 0}):
            assert (await client.get("/api/runs/r/page-events", params=wrong)).status_code == 422


async def test_page_events_need_a_token(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        assert (await server.client(None).get("/api/runs/r/page-events")).status_code == 401


async def test_a_page_reads_what_a_turn_was_told(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        path, client = await a_run(server), server.client("read")
        prompt = (await client.get(f"{path}/prompts/pair/step-2")).json()
        assert (prompt["member"], prompt["task"], len(prompt["history"])) == ("b", "Go", 1)
        missing = await client.get(f"{path}/prompts/pair/step-9")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_name")
        assert (await client.get("/api/runs/nothing/prompts/x")).status_code == 404


async def follow(server: TestServer, after: int, most: int) -> tuple[list[dict[str, Any]], bool]:
    """Follow the run for at most so many items, and cut the connection then; returns whether the run has ended."""
    headers = {"Authorization": f"Bearer {server.token('read')}"}
    url = f"ws://127.0.0.1:{server.port}/api/runs/r/socket?after={after}"
    found: list[dict[str, Any]] = []
    async with websockets.connect(url, additional_headers=headers) as socket:
        while len(found) < most:
            item = json.loads(await socket.recv())
            if item["kind"] == "end":
                return found, True
            if "number" in item:
                found.append(item)
    return found, False


@pytest.mark.parametrize("seed", range(6))
async def test_a_page_that_is_cut_off_anywhere_gets_every_page_event_once(tmp_path: Path, seed: int) -> None:  # law 7
    chance = Random(seed)

    async def slowly(turn: Turn) -> str:
        await asyncio.sleep(0.01)
        return f"said {turn.number}"

    members = [FunctionAgent(name, slowly) for name in "abcdefgh"]
    async with serving(MemoryJournal(), tmp_path) as server:
        handle = await server.state.engine.start(Team("t", members=members), "Go", run_id="r")
        seen: dict[tuple[int, int], dict[str, Any]] = {}
        has_ended = False
        while not has_ended:
            last = max(seen, default=(1, 0))[0]
            found, has_ended = await follow(server, last - 1, chance.randrange(2, 12))
            places = [(one["number"], one["index"]) for one in found]
            assert places == sorted(set(places)), "out of order, or twice"
            assert all(place[0] >= last for place in places), "what the page has was sent again"
            seen |= dict(zip(places, found, strict=True))
        await handle.result()
        listed = (await server.client("read").get("/api/runs/r/page-events")).json()
    assert [seen[place] for place in sorted(seen)] == listed


async def test_the_key_of_a_prompt_may_be_escaped(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        path, client = await a_run(server), server.client("read")
        assert (await client.get(f"{path}/prompts/pair%2Fstep-2")).json()["member"] == "b"


@pytest.mark.parametrize("after", ["99999999999999999999", "-1", "x", "9007199254740991"])
async def test_a_number_that_no_event_has_yields_nothing(tmp_path: Path, teams: Path, after: str) -> None:
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "r"})
        await server.state.engine.runs.wait("r")
        for path in ("page-events", "events"):
            answer = await server.client("read").get(f"/api/runs/r/{path}?after={after}")
            assert answer.status_code == 422 or answer.json() == [], answer.text
