"""A server that stops says so to each request, whatever it is doing; one without a wing says what it lacks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from teamwright.journal import MemoryJournal
from teamwright.server import guard
from tests.kit.entry_points import without_wings
from tests.kit.server import serving

ASKED = {"model": "held", "messages": [{"role": "user", "content": "Go"}]}


async def test_open_and_new_requests_are_told_to_come_back(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "GRACE_SECONDS", 0.2)
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


async def test_without_a_wing_its_addresses_are_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # K-14
    with without_wings(monkeypatch, "lab", "cluster"):
        async with serving(MemoryJournal(), tmp_path) as server:
            refused = await server.client("run").post("/api/lab/evaluate", json={})
            unknown = await server.client("run").get("/api/lab/evaluate")
    assert (refused.status_code, unknown.status_code) == (405, 404)
    for answer in (refused, unknown):
        said = answer.json()["error"]["message"].partition("; extras that are not installed here may serve it: ")[2]
        assert {"cluster", "lab"} <= set(said.split(", "))


async def test_long_answers_are_compressed_for_those_who_take_it(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        plain = await client.get("/api/openapi.json", headers={"Accept-Encoding": "identity"})
        packed = await client.get("/api/openapi.json", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(plain.content) / 4
        assert packed.json() == plain.json()
