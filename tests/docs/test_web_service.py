"""The recipe for web services: its FastAPI application runs on a stub of FastAPI, and resumes runs after a restart."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import cast

import anyio
import pytest

from teamwright import Agent, Engine, FunctionAgent
from teamwright.engine import Handle
from teamwright.errors import RunIsLive
from tests.docs.pages import ROOT, blocks
from tests.kit.fastapi import FastAPI, install_fastapi

PAGE = ROOT / "docs" / "running" / "server.md"
FILES = {block.about: block.text for block in blocks(PAGE) if block.mark == "file" and block.about.endswith(".py")}
TEAM = """
agents: {clerk: {model: scripted:replies.yaml}}
teams: {desk: {members: [clerk]}}
"""
REPLIES = "rules: [{reply: It is done and on its way to you., delay: 0.2}]"


@pytest.fixture
def _recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The files of the recipe and a team, in the current folder."""
    for name, text in {**FILES, "team.yaml": TEAM, "replies.yaml": REPLIES}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    install_fastapi(monkeypatch)
    yield
    for name in FILES:
        sys.modules.pop(Path(name).stem, None)


@pytest.mark.usefixtures("_recipe")
async def test_events_are_streamed_while_a_reply_arrives_in_pieces() -> None:
    app: FastAPI = import_module("fastapi_service").app
    async with app.running():
        assert await app.request("PUT", "/runs/one", task="Do it.") == (202, {"run_id": "one"})
        status, content = await app.request("GET", "/runs/one/events")
        pieces = cast("list[str]", content)
        assert (status, "run.ended" in pieces[-1]) == (200, True)
        _, rest = await app.request("GET", "/runs/one/events", last_event_id=len(pieces) - 1)
        assert rest == pieces[-1:]
        _, content = await app.request("GET", "/runs/one")
        assert content == {"status": "completed", "output": "It is done and on its way to you."}
        assert (await app.request("GET", "/runs/two"))[0] == 404


async def interrupt_a_run() -> None:
    """Leave an interrupted run in the database of the service, of a team that can't be rebuilt from the record."""

    async def wait_until_cancelled(task: str) -> str:
        await anyio.sleep_forever()
        return task

    team = FunctionAgent("clerk", wait_until_cancelled)
    async with Engine("service.db") as engine:
        handle = await engine.start(team, "Do it.", run_id="one")
        handle.interrupt()
        assert (await handle.result()).status == "interrupted"


@pytest.mark.usefixtures("_recipe")
async def test_a_run_of_a_team_made_in_python_is_resumed_after_a_restart() -> None:
    await interrupt_a_run()
    async with Engine("service.db") as engine:
        await import_module("restart").resume_interrupted(engine, FunctionAgent("clerk", lambda task: "Done."))
        assert (await engine.runs.wait("one")).output == "Done."


class OtherWorkerWasFirst(Engine):
    """An engine that finds every run already driven by another process."""

    async def start_resume(self, run_id: str, *, team: Agent | None = None, code: Path | str = "") -> Handle:
        raise RunIsLive(run_id)


@pytest.mark.usefixtures("_recipe")
async def test_a_run_that_can_not_be_resumed_is_logged_and_the_service_starts(caplog: pytest.LogCaptureFixture) -> None:
    await interrupt_a_run()
    async with OtherWorkerWasFirst("service.db") as engine:
        await import_module("restart").resume_interrupted(engine, FunctionAgent("clerk", lambda task: "Done."))
    assert "Run one is not resumed: Run 'one' is being driven" in caplog.text
