"""What a reader lets the server compute ends with its client or its ceiling, and holds up no other visitor."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from teamwright.journal import MemoryJournal
from teamwright.server import jobs as lab_pool
from teamwright.server.jobs import answer
from teamwright.server.team_catalogue import Catalogue
from tests.kit.server import TestServer, serving
from tests.kit.terminal import write_team

LONG = """\
agents:
  a: {model: scripted:replies.yaml}
  b: {model: scripted:replies.yaml}
teams:
  long: {members: [a, b], strategy: round_robin, max_turns: 2000}
"""
HEAVY = {"team": "long", "task": "Go", "runs": 200}
LIGHT = {"team": "pair", "task": "Go", "runs": 1}
Process = asyncio.subprocess.Process


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes that the pool has started."""
    made: list[Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*arguments: Any, **options: Any) -> Process:
        made.append(await start(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return made


@asynccontextmanager
async def lab(tmp_path: Path, teams: Path) -> AsyncGenerator[TestServer]:
    write_team(teams / "long", LONG, "rules:\n  - {reply: one}\n")
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        yield server


async def until(processes: list[Process], count: int) -> None:
    async with asyncio.timeout(20):
        while len(processes) < count:  # noqa: ASYNC110 - the server starts them
            await asyncio.sleep(0.02)


@pytest.mark.lab
async def test_a_computation_ends_with_its_client(tmp_path: Path, teams: Path, processes: list[Process]) -> None:
    async with lab(tmp_path, teams) as server:
        client = server.client("read")
        asked = asyncio.create_task(client.post("/api/lab/simulate", json=HEAVY, timeout=60))
        await until(processes, 1)
        asked.cancel()
        await client.aclose()
        async with asyncio.timeout(10):
            assert await processes[0].wait() == -signal.SIGKILL


@pytest.mark.lab
async def test_a_role_has_a_ceiling_and_a_server_that_computes_answers_others(
    tmp_path: Path, teams: Path, processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_pool, "CEILINGS", {**lab_pool.CEILINGS, "read": 2.0})
    async with lab(tmp_path, teams) as server:
        client, other = server.client("read"), server.client("run")
        asked = [asyncio.create_task(client.post("/api/lab/simulate", json=HEAVY, timeout=60)) for _ in range(3)]
        await until(processes, 1)
        assert len(processes) == 1  # one visitor has one process at a time
        assert (await other.post("/api/lab/simulate", json=LIGHT, timeout=60)).status_code == 200
        assert (await other.get("/api/runs")).status_code == 200
        refused = await asked[0]
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_long")
        assert "more than 2 seconds, the most for the role 'read'" in refused.text
        for one in asked[1:]:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.lab
async def test_a_process_is_kept_and_one_that_died_is_replaced(
    tmp_path: Path, teams: Path, processes: list[Process]
) -> None:
    async with lab(tmp_path, teams) as server:
        client = server.client("read")
        for _ in range(2):
            assert (await client.post("/api/lab/simulate", json=LIGHT, timeout=60)).status_code == 200
        assert len(processes) == 1
        processes[0].kill()
        await processes[0].wait()
        assert (await client.post("/api/lab/simulate", json=LIGHT, timeout=60)).status_code == 200
        assert len(processes) == 2
        running = asyncio.create_task(client.post("/api/lab/simulate", json=HEAVY, timeout=60))
        await asyncio.sleep(0.5)
        os.kill(processes[1].pid, signal.SIGKILL)
        broken = await running
        assert (broken.status_code, broken.json()["error"]["code"]) == (500, "internal")
    assert all(one.returncode is not None for one in processes)


@pytest.mark.lab
async def test_no_process_outlives_its_server(tmp_path: Path, teams: Path, processes: list[Process]) -> None:
    async with lab(tmp_path, teams) as server:
        client = server.client("admin")
        asked = asyncio.create_task(client.post("/api/lab/simulate", json=HEAVY, timeout=60))
        await until(processes, 1)
        server.state.feeds.close()
        assert (await asked).json()["error"]["code"] == "stopping"
    assert processes[0].returncode is not None


@pytest.mark.lab
def test_what_is_refused_says_why(teams: Path) -> None:
    catalogue = Catalogue([teams])
    unknown = '{"job": "teamwright.lab.jobs:advise_team", "options": {"team": "piar", "task": ""}}'
    assert answer(catalogue, unknown)["refused"][:2] == [404, "unknown_name"]  # pyright: ignore[reportIndexIssue, reportOptionalSubscript, reportArgumentType, reportCallIssue]
    same = '{"job": "teamwright.server.jobs:difference_job", "options": {"before": ["a"], "after": ["a"]}}'
    assert answer(catalogue, same) == {"result": []}
