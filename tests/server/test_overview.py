from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from teamwright.journal import MemoryJournal
from teamwright.server import overview
from tests.kit.server import serving


async def test_a_run_is_read_again_only_when_its_questions_can_have_changed(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client, runs = server.client("run"), server.state.engine.runs
        for run_id, team in (("asks", "gated"), ("works", "held")):
            await client.post("/api/runs", json={"team": team, "task": "Go", "run_id": run_id})
        await runs.wait("asks")
        read: list[str] = []
        history = runs.history

        async def counted(run_id: str) -> object:
            read.append(run_id)
            return await history(run_id)

        monkeypatch.setattr(runs, "history", counted)
        for _ in range(3):
            found = (await client.get("/api/inbox")).json()
            assert [(one["run_id"], one["answered"]) for one in found] == [("asks", False)]
        assert sorted(read) == ["asks", "works"]
        await runs.answer("asks", (await client.get("/api/inbox")).json()[0]["key"], "approve")
        found = (await client.get("/api/inbox")).json()
        assert [(one["answered"], one["paused"]) for one in found] == [(True, True)]
        await client.post("/api/runs/asks/resume")
        await runs.wait("asks")
        assert (await client.get("/api/inbox")).json() == []


async def test_a_run_that_is_deleted_is_gone_from_lists_that_show_only_the_newest(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "SHOWN", 2)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        runs = server.state.engine.runs
        for number in range(4):
            await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "run_id": f"run-{number}"})
            await runs.wait(f"run-{number}")
        async with aclosing(server.state.overview.changes()) as changes:
            first = [await anext(changes) for _ in range(3)]
            assert [one.get("run_id") for one in first] == ["run-2", "run-3", None]
            await runs.delete("run-3")
            found = [await anext(changes), await anext(changes)]
        assert {(one["kind"], one["run_id"]) for one in found} == {("row", "run-1"), ("deleted", "run-3")}
