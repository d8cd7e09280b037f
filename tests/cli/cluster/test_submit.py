"""`teamwright submit` and `cluster queue`, with workers that are real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from teamwright.cli.main import main
from tests.kit.workers import Cluster


async def _teamwright(cluster: Cluster, *arguments: str) -> int:
    return await run_sync(main, [*arguments, "--journal", cluster.url])


async def test_a_submitted_run_is_followed_to_its_end(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    cluster.start()
    code = await _teamwright(cluster, "submit", str(cluster.folder / "team.yaml"), "one", "--wait", "--json")
    result = json.loads(capfd.readouterr().out)
    assert (code, result["status"], result["output"]) == (0, "completed", "one is done")
    await cluster.check(result["run_id"], task="one")


async def test_a_submitted_run_waits_in_its_queue(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    manifest = str(cluster.folder / "team.yaml")
    for told in ("follow it with", "nothing new is submitted"):
        code = await _teamwright(cluster, "submit", manifest, "task", "--run-id", "one", "--queue", "night", "--json")
        printed = capfd.readouterr()
        assert (code, json.loads(printed.out)) == (0, {"run_id": "one", "status": "queued", "queue": "night"})
        assert told == "follow it with" or told in printed.err
    assert await _teamwright(cluster, "cluster", "queue", "night", "--at-once", "3", "--json") == 0
    assert json.loads(capfd.readouterr().out) == [{"name": "night", "at_once": 3, "per_minute": None}]


def test_a_queue_needs_a_journal_in_postgres(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "team.yaml").write_text("agents: {a: {model: local}}", encoding="utf-8")
    assert main(["submit", str(tmp_path / "team.yaml"), "task"]) == 2
    assert "journal in Postgres" in capfd.readouterr().err
    assert main(["worker"]) == 2
    assert "TEAMWRIGHT_JOURNAL" in capfd.readouterr().err


async def test_a_run_travels_with_its_files_and_starts_later(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "replies.yaml").write_text("rules: [{reply: from a file}]\n", encoding="utf-8")
    (folder / "team.yaml").write_text("agents: {one: {scripted: replies.yaml}}", encoding="utf-8")
    manifest = str(folder / "team.yaml")
    for run_id, after in (("late", "1h"), ("early", "1s")):
        assert await _teamwright(cluster, "submit", manifest, "x", "--run-id", run_id, "--after", after) == 0
    for file in folder.iterdir():
        file.unlink()
    cluster.start()
    await cluster.completed("early")
    assert (await cluster.engine.runs.result("early")).output == "from a file"
    assert (late := await cluster.engine.runs.find("late")) is not None
    assert late.status == "queued"
    capfd.readouterr()
    assert await _teamwright(cluster, "runs", "show", "late") == 0
    assert "waits in the queue 'default' for a worker" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("option", "problem"),
    [(("--priority", "9999999"), "can't be 9999999"), (("--queue", "a.branches"), "those of child runs")],
)
def test_what_no_worker_could_start_is_refused_also_for_a_schedule(
    option: tuple[str, str], problem: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "team.yaml").write_text("agents: {a: {model: local}}", encoding="utf-8")
    assert main(["submit", str(tmp_path / "team.yaml"), "task", "--every", "@daily", *option]) == 2
    assert problem in capfd.readouterr().err
