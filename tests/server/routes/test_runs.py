from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import websockets

from teamwright import FunctionAgent, Team
from teamwright.journal import MemoryJournal
from teamwright.server import overview
from tests.kit.server import TestServer, serving


async def test_a_run_is_started_followed_and_read(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        teams_ = (await client.get("/api/teams")).json()
        assert ("pair", "sequential") in [(one["id"], one["strategy"]) for one in teams_]
        started = await client.post("/api/runs", json={"team": "pair", "task": "Go"})
        assert started.status_code == 201, started.text
        run_id = started.json()["run_id"]
        async with client.stream("GET", f"/api/runs/{run_id}/stream?form=events") as stream:
            lines = [line async for line in stream.aiter_lines()]
        kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
        assert (kinds[0], kinds[-2:]) == ("run.started", ["run.ended", "end"])
        result = (await client.get(f"/api/runs/{run_id}")).json()
        assert (result["status"], result["output"]) == ("completed", "two")


async def test_the_same_id_finds_its_run_and_another_task_or_team_is_a_conflict(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        new = {"team": "pair", "task": "Go", "run_id": "mine"}
        for _ in range(2):
            answer = await client.post("/api/runs", json=new)
            assert (answer.status_code, answer.json()) == (201, {"run_id": "mine"})
        other = (await client.post("/api/runs", json=new | {"task": "Stay"})).json()["error"]
        assert other["code"] == "run_exists"
        assert "its task, 'Go' there and 'Stay' here" in other["message"]
        names = [one["id"] for one in (await client.get("/api/teams")).json() if one["id"] != "pair"]
        answer = await client.post("/api/runs", json=new | {"team": names[0]})
        assert answer.status_code == 409
        assert f"its team ('pair' there and {names[0]!r} here)" in answer.text


async def test_a_socket_gets_every_event_once_with_its_texts(tmp_path: Path, teams: Path) -> None:  # law 7
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "pair", "task": "Go"})).json()["run_id"]
        first = await items(server, run_id)
        numbers = [one["number"] for one in first if "number" in one]
        assert numbers == list(range(1, len(numbers) + 1))
        replies = [one for one in first if one["kind"] == "agent.replied"]
        assert replies[0]["texts"]["messages"][0]["content"] == "one"
        rest = await items(server, run_id, after=3)
        assert [one["number"] for one in rest if "number" in one] == numbers[3:]


async def items(server: TestServer, run_id: str, after: int = 0) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {server.token('read')}"}
    address = f"ws://127.0.0.1:{server.port}/api/runs/{run_id}/socket?form=events&after={after}"
    async with websockets.connect(address, additional_headers=headers) as socket:
        return [json.loads(text) async for text in socket]


async def test_who_shows_nothing_gets_nothing(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        nobody = server.client(None)
        for path in ("/api/runs", "/api/teams", "/api/session", "/api/runs/x/events"):
            answer = await nobody.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), path
        async with websockets.connect(f"ws://127.0.0.1:{server.port}/api/runs/x/socket") as socket:
            with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
                await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


@pytest.mark.parametrize("task", ["", "  "])
async def test_a_blank_task_starts_no_run(task: str, tmp_path: Path, teams: Path) -> None:  # K-11
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        refused = await client.post("/api/runs", json={"team": "pair", "task": task})
        assert refused.status_code in (400, 422), refused.text
        assert (await client.get("/api/runs")).json() == []


async def test_a_reader_starts_no_runs(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        answer = await server.client("read").post("/api/runs", json={"team": "pair", "task": "Go"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


async def test_errors_have_a_code_and_a_message(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("admin")
        asked = [
            (await client.get("/api/runs/nothing"), 404, "run_not_found"),
            (await client.post("/api/runs", json={"team": "piar", "task": "Go"}), 404, "unknown_name"),
            (await client.post("/api/runs", json={"team": "pair"}), 422, "invalid"),
            (await client.get("/api/nothing"), 404, "not_found"),
        ]
    for answer, status, code in asked:
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        assert answer.json()["error"]["message"]


async def test_a_run_of_another_program_is_followed_too(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        team = Team("t", members=[FunctionAgent("a", lambda text: "done")])
        result = await server.state.engine.run(team, "Go", run_id="mine")
        assert result.status == "completed"
        assert [one["kind"] for one in await items(server, "mine")][-2:] == ["run.ended", "end"]


async def test_a_run_that_has_ended_is_followed_up_in_a_conversation_of_its_name(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        started = [(await client.post("/api/runs", json={"team": "pair", "task": "Go"})).json()["run_id"]]
        await items(server, started[0])
        for before in (started[0], started[0]):  # also the second one follows the turn before it
            answer = await client.post(f"/api/runs/{before}/turns", json={"task": "And then?"})
            assert answer.status_code == 201, answer.text
            started.append(answer.json()["run_id"])
            await items(server, started[-1])
        origins = [(await items(server, one))[0].get("origin") for one in started]
        assert [one and (one["run_id"], one["how"]) for one in origins] == [
            None,
            (started[0], "continue"),
            (started[1], "continue"),
        ]
        named = {one["id"]: one["conversation"] for one in (await client.get("/api/runs")).json()}
        assert named == {started[0]: "", started[1]: started[0], started[2]: started[0]}
        related = [(await client.get(f"/api/runs/{one}/related")).json() for one in started]
        assert [[one["id"] for one in found["turns"]] for found in related] == [started[1:]] * 3
        assert [(found["parent"], found["children"]) for found in related] == [("", [])] * 3


async def test_a_run_is_followed_up_after_its_end_by_those_who_may_start_runs(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "held", "task": "Go"})).json()["run_id"]
        busy = await client.post(f"/api/runs/{run_id}/turns", json={"task": "And then?"})
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "conversation_busy")
        assert run_id in busy.json()["error"]["message"]
        refused = await server.client("answer").post(f"/api/runs/{run_id}/turns", json={"task": "And then?"})
        assert refused.status_code == 403
        missing = await client.post("/api/runs/no-such-run/turns", json={"task": "And then?"})
        assert missing.status_code == 404


async def test_a_list_of_runs_is_read_page_by_page(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        for number in range(5):
            new = {
                "team": "pair",
                "task": f"{'Odd' if number % 2 else 'Even'} task {number}",
                "run_id": f"run-{number}",
            }
            await client.post("/api/runs", json=new)
            await server.state.engine.runs.wait(f"run-{number}")

        async def pages(**query: Any) -> list[list[str]]:
            found, after = list[list[str]](), {}
            while True:
                answer = await client.get("/api/runs", params={"limit": 2, **query, **after})
                found.append([one["id"].removeprefix("run-") for one in answer.json()])
                if (last := answer.headers.get("Teamwright-Next")) is None:
                    return found
                after = {"after": last}

        assert await pages() == [["4", "3"], ["2", "1"], ["0"]]
        assert await pages(limit=5) == [["4", "3", "2", "1", "0"]]
        assert await pages(order="started") == [["0", "1"], ["2", "3"], ["4"]]
        assert await pages(search="even task") == [["4", "2"], ["0"]]
        assert await pages(status="completed", team="pair") == [["4", "3"], ["2", "1"], ["0"]]
        assert await pages(status="failed") == [[]]
        assert (await client.get("/api/runs", params={"after": "gone"})).status_code == 404


async def test_a_search_that_finds_little_says_where_to_go_on(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MOST_SEARCHED", 2)
    monkeypatch.setattr(overview, "SEARCHED_AT_ONCE", 2)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        for number in range(4):
            await client.post("/api/runs", json={"team": "pair", "task": f"Task {number}", "run_id": f"run-{number}"})
        first = await client.get("/api/runs", params={"search": "task 0"})
        assert (first.json(), first.headers["Teamwright-Next"]) == ([], "run-2")
        second = await client.get("/api/runs", params={"search": "task 0", "after": "run-2"})
        assert [one["id"] for one in second.json()] == ["run-0"]


async def test_an_admin_deletes_runs_that_have_ended(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        runner, admin = server.client("run"), server.client("admin")
        for run_id, team in (("old", "pair"), ("works", "held")):
            await runner.post("/api/runs", json={"team": team, "task": "Go", "run_id": run_id})
        await server.state.engine.runs.wait("old")
        assert (await runner.delete("/api/runs/old")).status_code == 403
        live = await admin.delete("/api/runs/works")
        assert (live.status_code, live.json()["error"]["code"]) == (409, "run_is_live")
        deleted = (await admin.delete("/api/runs/old")).json()
        assert deleted["deleted"] == ["old"]
        assert deleted["freed_bytes"] > 0
        assert (await admin.delete("/api/runs/old")).status_code == 404
        assert [one["id"] for one in (await runner.get("/api/runs")).json()] == ["works"]
