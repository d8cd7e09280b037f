"""Recorded runs of the present format, in a database: they show, resume and fork.

The database holds each history twice: as a run that ended, and as one that was cut in the middle, as `kill -9` cuts it.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from teamwright import Engine
from teamwright.cli.main import main
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.journal import SqliteJournal
from tests.histories.history import History, comparable
from tests.histories.teams import EXPERTS, TEAMS, cases, speak

NAMES = (
    "a2a_lite", "dag", "fan_out", "graph", "hierarchical", "lead_subagent", "mesh_team", "reactive", "round_robin",
    "selector", "sequential", "single", "star_team", *EXPERTS,
)  # fmt: skip
HOW = ("ended", "cut")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The database where the command line finds it."""
    home = tmp_path / "teamwright-home"
    home.mkdir(mode=0o700)
    return home / "journal.db"


async def write(database: Path, *names: str) -> None:
    """Write histories into a database, each whole and cut."""
    journal = SqliteJournal(database)
    await journal.open()
    errors: list[BaseException | None] = []
    for name in names:
        for how in HOW:
            history = History.load(name, f"{name}-{how}")
            count = len(history.events) if how == "ended" else len(history.events) // 2
            journal.append(Batch(history.events[:count], history.bodies), errors.append)
    await journal.close()
    assert errors == [None] * 2 * len(names)


@pytest.mark.parametrize("name", cases(NAMES))
async def test_a_run_that_was_cut_resumes_to_the_same_result(database: Path, name: str) -> None:
    await write(database, name)
    async with Engine(database) as engine:
        ended = await engine.runs.result(f"{name}-ended")
        resumed = await engine.resume(f"{name}-cut", team=TEAMS[name](speak))
    assert comparable(resumed) == comparable(ended) == History.load(name).result


@pytest.mark.parametrize("name", cases(NAMES))
async def test_what_was_recorded_is_not_recorded_again_on_resume(database: Path, name: str) -> None:
    async def calls() -> list[str]:
        opened = SqliteJournal(database)
        await opened.open()
        events = await opened.read(f"{name}-cut")
        await opened.close()
        return [event.key for event in events if event.kind == "agent.returned"]

    await write(database, name)
    before = await calls()
    async with Engine(database) as engine:
        await engine.resume(f"{name}-cut", team=TEAMS[name](speak))
    after = await calls()
    assert after[: len(before)] == before
    assert len(after) == len(set(after))


@pytest.mark.parametrize("name", cases(NAMES))
async def test_a_run_that_ended_is_forked(database: Path, name: str) -> None:
    await write(database, name)
    async with Engine(database) as engine:
        ended = await engine.runs.result(f"{name}-ended")
        forked = await engine.fork(f"{name}-ended", team=TEAMS[name](speak), new_id="forked")
    assert (forked.status, forked.output) == (ended.status, ended.output)


@pytest.mark.parametrize("command", ["show", "logs", "kpi", "steer RUN checkpoint", "export"])
def test_a_recorded_run_is_read(database: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    anyio.run(write, database, *NAMES)
    for name in NAMES:
        for how in HOW:
            named, _, more = command.partition(" RUN ")
            assert main(["runs", named, f"{name}-{how}", *more.split()]) == 0
            assert capsys.readouterr().out


def test_recorded_runs_are_listed(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    anyio.run(write, database, *NAMES)
    assert main(["runs", "list", "--json", "--limit", "100"]) == 0
    listed = {one["id"]: one["status"] for one in json.loads(capsys.readouterr().out)}
    ended = {f"{name}-ended": History.load(name).result["status"] for name in NAMES}
    assert listed == ended | {f"{name}-cut": "interrupted" for name in NAMES}
