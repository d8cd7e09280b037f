"""A server that stops says so to each request, whatever it is doing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from teamwright.journal import MemoryJournal
from teamwright.server import app as drain
from tests.kit.server import serving

ASKED = {"model": "held", "messages": [{"role": "user", "content": "Go"}]}


async def test_open_and_new_requests_are_told_to_come_back(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "GRACE_SECONDS", 0.2)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        waiting = [asyncio.create_task(client.post("/v1/chat/completions", json=ASKED)) for _ in range(3)]
        while not await server.state.engine.runs.list():  # noqa: ASYNC110 - the server starts it
            await asyncio.sleep(0.005)
        server.state.feeds.close()
        for answer in [*(await asyncio.gather(*waiting)), await client.get("/api/runs")]:
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")
            assert answer.headers["Retry-After"] == "5"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        (run,) = await server.state.engine.runs.list()
        assert run.status == "running"  # it is interrupted with the server and resumed after its start


async def test_a_request_that_is_nearly_done_gets_its_answer(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        asked = {**ASKED, "model": "pair"}
        waiting = asyncio.create_task(server.client("run").post("/v1/chat/completions", json=asked))
        while not await server.state.engine.runs.list():  # noqa: ASYNC110 - the server starts it
            await asyncio.sleep(0.005)
        server.state.feeds.close()
        assert (await waiting).status_code == 200
