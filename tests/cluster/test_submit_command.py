"""`teamwright submit` and `cluster queue`, with workers that are real processes."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import DEVNULL, PIPE
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGINT

import pytest
from anyio.to_thread import run_sync

from teamwright.cli.main import main
from tests.kit.workers import PATIENCE, Cluster
from tests.paths import ROOT


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
        assert (code, json.loads(printed.out)) == (
            0,
            {"run_id": "one", "status": "queued", "queue": "night", "starts": None},
        )
        assert told == "follow it with" or told in printed.err
    assert await _teamwright(cluster, "cluster", "queue", "night", "--at-once", "3", "--json") == 0
    assert json.loads(capfd.readouterr().out) == [{"name": "night", "at_once": 3, "per_minute": None}]


async def test_a_later_start_is_told_also_of_a_run_that_exists(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    submit = ("submit", str(cluster.folder / "team.yaml"), "x", "--run-id", "late", "--queue", "night")
    later = datetime.now(UTC).replace(microsecond=0, second=0) + timedelta(days=400)
    assert await _teamwright(cluster, *submit, "--after", later.isoformat()) == 0
    told = f"{later:%Y-%m-%d %H:%M} UTC"
    said = capfd.readouterr().err
    assert f"in the queue 'night', starts at {told}; follow it with" in said
    assert "no worker of this queue runs now" in said
    assert await _teamwright(cluster, *submit[:-2], "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found == {"run_id": "late", "status": "queued", "queue": "night", "starts": later.isoformat()}
    for command in ("show", "logs"):
        assert await _teamwright(cluster, "runs", command, "late") == 0
        assert f"waits in the queue 'night' for a worker, from {told} on" in capfd.readouterr().out


async def test_a_run_that_has_ended_is_not_said_to_be_in_a_queue(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    await cluster.submit("one")
    await cluster.engine.runs.cancel("one")
    assert await _teamwright(cluster, "submit", str(cluster.folder / "team.yaml"), "one", "--run-id", "one") == 0
    assert capfd.readouterr().err == (
        "run one exists already; nothing new is submitted\nit is cancelled; see it with: teamwright runs show one\n"
    )


async def test_the_id_of_a_run_with_another_task_is_refused(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    submit = ("submit", str(cluster.folder / "team.yaml"), "--run-id", "one")
    assert await _teamwright(cluster, *submit, "Write", "--json") == 0
    assert await _teamwright(cluster, *submit, "Write", "--json") == 0
    capfd.readouterr()
    assert await _teamwright(cluster, *submit, "Read", "--json") == 2
    said = capfd.readouterr()
    assert json.loads(said.out)["error"]["kind"] == "RunExists"
    assert "its task, 'Write' there and 'Read' here" in said.err


async def test_who_stops_to_wait_is_told_that_the_run_goes_on(cluster: Cluster) -> None:
    team = str(cluster.folder / "team.yaml")
    submit = ("submit", team, "x", "--run-id", "one", "--wait", "--journal", cluster.url)
    process = await create_subprocess_exec(
        sys.executable, "-m", "teamwright", *submit, cwd=ROOT, stderr=PIPE, stdout=DEVNULL
    )
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        said = (await process.stderr.readuntil(b"run one in the queue 'default'\n")).decode()
        process.send_signal(SIGINT)
        rest = (await process.stderr.read()).decode()
        assert await process.wait() == 130
    assert "no worker of this queue runs now" in said
    assert "run one goes on" in rest
    assert "teamwright runs cancel one" in rest


@pytest.mark.parametrize("name", ["two words", "a\nb", "\x1b[31m"])
def test_the_name_of_a_worker_is_checked(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "--name", name, "--journal", "postgresql://nobody@127.0.0.1:9/none"]) == 2
    assert "name" in capfd.readouterr().err


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
    (folder / "team.yaml").write_text("agents: {one: {model: scripted:replies.yaml}}", encoding="utf-8")
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
    assert "waits in the queue 'default' for a worker, from 20" in capfd.readouterr().out


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
