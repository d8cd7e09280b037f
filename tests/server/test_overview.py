from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.journal import MemoryJournal
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
        assert [one["answered"] for one in (await client.get("/api/inbox")).json()] == [True]
        await client.post("/api/runs/asks/resume")
        await runs.wait("asks")
        assert (await client.get("/api/inbox")).json() == []
