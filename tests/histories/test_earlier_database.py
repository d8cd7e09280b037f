"""A database that an earlier version recorded, before modules and names changed: its runs show, resume and fork.

`earlier/examples.db` holds, for each example, a run that ended and one that was cut in the middle, as `kill -9` cuts
it. It was recorded once and is never written again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from teamwright import Engine, load_team
from teamwright.cli.main import main
from teamwright.journal import SqliteJournal
from tests.histories.history import comparable
from tests.paths import EXAMPLES, ROOT

DATABASE = ROOT / "tests" / "histories" / "earlier" / "examples.db"
NAMES = (
    "a2a_lite", "dag", "fan_out", "graph", "hierarchical", "lead_subagent", "mesh_team", "reactive", "round_robin",
    "selector", "sequential", "single", "star_team",
)  # fmt: skip
STATUSES = {"ended": "completed", "cut": "interrupted"}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A copy of the recorded database where the command line finds it."""
    home = tmp_path / "teamwright-home"
    home.mkdir(mode=0o700)
    return Path(shutil.copyfile(DATABASE, home / "journal.db"))


def test_every_example_is_recorded_twice() -> None:
    connection = sqlite3.connect(f"file:{DATABASE}?mode=ro&immutable=1", uri=True)
    recorded = {run_id for (run_id,) in connection.execute("SELECT id FROM runs")}
    connection.close()
    assert recorded == {f"{name}-{how}" for name in NAMES for how in ("ended", "cut")}


@pytest.mark.parametrize("name", NAMES)
async def test_a_run_that_was_cut_resumes_to_the_same_result(journal: Path, name: str) -> None:
    async with Engine(journal) as engine:
        ended = await engine.runs.result(f"{name}-ended")
        resumed = await engine.resume(f"{name}-cut", team=load_team(EXAMPLES / name))
    assert comparable(resumed) == comparable(ended)


@pytest.mark.parametrize("name", NAMES)
async def test_what_was_recorded_is_not_recorded_again_on_resume(journal: Path, name: str) -> None:
    async def calls() -> list[str]:
        opened = SqliteJournal(journal)
        await opened.open()
        events = await opened.read(f"{name}-cut")
        await opened.close()
        return [event.key for event in events if event.kind == "agent.returned"]

    before = await calls()
    async with Engine(journal) as engine:
        await engine.resume(f"{name}-cut", team=load_team(EXAMPLES / name))
    after = await calls()
    assert after[: len(before)] == before
    assert len(after) == len(set(after))


@pytest.mark.parametrize("name", NAMES)
async def test_a_run_that_ended_is_forked(journal: Path, name: str) -> None:
    async with Engine(journal) as engine:
        ended = await engine.runs.result(f"{name}-ended")
        forked = await engine.fork(f"{name}-ended", team=load_team(EXAMPLES / name), new_id="forked")
    assert (forked.status, forked.output) == (ended.status, ended.output)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ["show", "logs", "kpi", "checkpoints", "export"])
def test_a_recorded_run_is_read(journal: Path, name: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert journal.exists()
    for how in ("ended", "cut"):
        assert main(["runs", command, f"{name}-{how}"]) == 0
        assert capsys.readouterr().out


def test_recorded_runs_are_listed(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert journal.exists()
    assert main(["runs", "list", "--json", "--limit", "100"]) == 0
    listed = {one["id"]: one["status"] for one in json.loads(capsys.readouterr().out)}
    assert listed == {f"{name}-{how}": status for name in NAMES for how, status in STATUSES.items()}
