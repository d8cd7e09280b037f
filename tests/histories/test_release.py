"""What a release recorded is read by this version with the meaning that it had: loaded, verified, shown and resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from teamwright import Engine
from teamwright.cli.main import main
from teamwright.journal.sqlite.journal import SqliteJournal
from tests.histories.history import RUN_ID, comparable
from tests.histories.release import CUT, DATABASE, ENDED, MEANING, RELEASES, changed_meanings, record_release
from tests.histories.teams import TEAMS, speak

PRESENT = "present"
"""A release that is recorded by the test itself, of few teams: it checks these tests."""
VERSIONS = (*(sorted(one.name for one in RELEASES.iterdir()) if RELEASES.exists() else ()), PRESENT)


@pytest.fixture(params=VERSIONS)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """What the runs of a release mean; its database is where the command line finds it."""
    home = tmp_path / "teamwright-home"
    home.mkdir(mode=0o700)
    folder = RELEASES / request.param
    if request.param == PRESENT:
        folder = tmp_path / PRESENT
        anyio.run(record_release, folder, ("sequential", "graph", "failing"))
    shutil.copyfile(folder / DATABASE, home / DATABASE)
    return json.loads((folder / MEANING).read_text(encoding="utf-8"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "teamwright-home" / DATABASE


def test_its_events_mean_what_they_meant(release: dict[str, Any], database: Path) -> None:
    async def read() -> dict[str, Any]:
        journal = SqliteJournal(database)
        await journal.open()
        found = {name: await journal.read(f"{name}-{ENDED}") for name in release}
        await journal.close()
        return {name: [event.to_json() | {"run_id": RUN_ID} for event in events] for name, events in found.items()}

    found = json.loads(json.dumps(anyio.run(read)))
    for name, recorded in release.items():
        assert changed_meanings(recorded["events"], found[name], name) == []


@pytest.mark.experts
def test_its_results_are_the_same_and_runs_that_were_cut_resume_to_them(
    release: dict[str, Any], database: Path
) -> None:
    async def read() -> dict[str, Any]:
        async with Engine(database) as engine:
            for name in release:
                await engine.resume(f"{name}-{CUT}", team=TEAMS[name](speak))
            runs = [f"{name}-{how}" for name in release for how in (ENDED, CUT)]
            return {run: comparable(await engine.runs.result(run)) for run in runs}

    found = anyio.run(read)
    for name, recorded in release.items():
        for how in (ENDED, CUT):
            assert changed_meanings(recorded["result"], found[f"{name}-{how}"], name) == []


def test_its_runs_are_listed_shown_and_verified(
    release: dict[str, Any], database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "list", "--json", "--limit", "200"]) == 0
    listed = {one["id"]: one["status"] for one in json.loads(capsys.readouterr().out)}
    ended = {f"{name}-{ENDED}": one["result"]["status"] for name, one in release.items()}
    assert listed == ended | {f"{name}-{CUT}": "interrupted" for name in release}
    for name in release:
        for command in ("show", "logs", "kpi", "export"):
            assert main(["runs", command, f"{name}-{ENDED}"]) == 0
    assert main(["runs", "export", "--journal", str(database), "--out", str(tmp_path / "copy.db")]) == 0, (
        capsys.readouterr().err
    )


def test_a_fact_that_is_read_otherwise_is_found() -> None:
    recorded = {"fact": {"kind": "a", "count": 1}, "messages": ["x"]}
    assert changed_meanings(recorded, {"fact": {"kind": "a", "count": 1, "new": 0}, "messages": ["x"]}) == []
    assert changed_meanings(recorded, {"fact": {"kind": "a", "count": 2}, "messages": ["x"]}) == [
        ".fact.count was 1, and is read as 2"
    ]
    assert changed_meanings(recorded, {"fact": {"kind": "a"}, "messages": ["x"]}) == [".fact.count is gone"]
    assert len(changed_meanings(recorded, {"fact": recorded["fact"], "messages": []})) == 1
