"""A server lets runs go on by themselves once their provider takes calls again, also after a restart."""

from __future__ import annotations

from pathlib import Path

import anyio

from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.model_server import ModelServer
from tests.cli.runs.test_resume_wait import TEAM, Closed, counts
from tests.kit.server import TestServer, serving
from tests.kit.terminal import write_team


async def started(server: TestServer) -> str:
    answer = await server.client("run").post("/api/runs", json={"team": "paper", "task": "Write"})
    run_id: str = answer.json()["run_id"]
    assert (await server.state.engine.runs.wait(run_id)).stop_reason == "quota"
    return run_id


async def completed(server: TestServer, run_id: str) -> None:
    with anyio.fail_after(30):
        while (await server.state.engine.runs.result(run_id)).status != "completed":  # noqa: ASYNC110 - no event says so
            await anyio.sleep(0.05)


async def test_a_run_goes_on_at_its_time(tmp_path: Path) -> None:
    with ModelServer(Closed(2)) as provider:
        teams = write_team(tmp_path / "paper", TEAM.format(url=provider.url))
        async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
            run_id = await started(server)
            assert run_id not in server.state.driven
            shown = (await server.client("read").get(f"/api/runs/{run_id}")).json()
            assert (shown["status"], shown["stop_reason"]) == ("paused", "quota")
            assert shown["resume_at"] > shown["started_at"]
            await completed(server, run_id)
        assert counts(provider) == {"open": 1, "closed": 3}


async def test_a_run_goes_on_at_its_time_after_a_restart(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with ModelServer(Closed(3)) as provider:
        teams = write_team(tmp_path / "paper", TEAM.format(url=provider.url))
        async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
            run_id = await started(server)
        async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
            await anyio.sleep(0.2)
            assert counts(provider) == {"open": 1, "closed": 1}
            await completed(server, run_id)
        assert counts(provider) == {"open": 1, "closed": 3}


async def test_a_client_of_chat_completions_learns_when_to_ask_again_and_then_gets_the_answer(tmp_path: Path) -> None:
    with ModelServer(Closed(2)) as provider:
        teams = write_team(tmp_path / "paper", TEAM.format(url=provider.url))
        async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
            client = server.client("run", **{"Idempotency-Key": "k"})
            asked = {"model": "paper", "messages": [{"role": "user", "content": "Write"}]}
            refused = await client.post("/v1/chat/completions", json=asked)
            assert refused.json()["error"]["code"] == "run_paused"
            await anyio.sleep(int(refused.headers["Retry-After"]) + 0.5)
            answer = await client.post("/v1/chat/completions", json=asked)
            assert answer.json()["choices"][0]["message"]["content"] == "closed answers"
        assert counts(provider) == {"open": 1, "closed": 3}
