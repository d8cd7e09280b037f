from __future__ import annotations

from pathlib import Path

from teamwright import FunctionAgent, Team
from teamwright.journal import MemoryJournal
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
