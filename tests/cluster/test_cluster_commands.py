"""`teamwright cluster status`, as text and as JSON."""

from __future__ import annotations

import json

import pytest
from anyio.to_thread import run_sync

from teamwright.cli.main import main
from tests.kit.workers import Cluster


async def test_the_command_shows_it_as_text_and_as_json(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    await cluster.submit("one")
    assert await run_sync(main, ["cluster", "status", "--journal", cluster.url]) == 0
    text = capsys.readouterr().out
    assert text.startswith("0 workers, 1 open run, the oldest waits for ")
    assert "default" in text
    assert await run_sync(main, ["cluster", "status", "--json", "--journal", cluster.url]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["open_runs"] == 1
    assert found["queues"][0]["queued"] == 1
    assert (found["workers"], found["models"]) == ([], [])


async def test_a_run_that_no_worker_could_drive_says_for_what_it_waits(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.submit("one")
    await cluster.client.park("one", "waits for a worker with strategy 'debate' version 2", waits=True)
    assert await run_sync(main, ["cluster", "status", "--journal", cluster.url]) == 0
    assert "  one waits for a worker with strategy 'debate' version 2\n" in capsys.readouterr().out
    assert await run_sync(main, ["cluster", "status", "--json", "--journal", cluster.url]) == 0
    found = json.loads(capsys.readouterr().out)
    reason = "waits for a worker with strategy 'debate' version 2"
    assert found["set_aside"] == [{"run_id": "one", "reason": reason}]


async def test_the_queue_of_branches_is_shown_where_it_has_runs(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for queue in ("default", "default.branches"):
        await cluster.client.queues.register(queue)
    assert await run_sync(main, ["cluster", "status", "--journal", cluster.url]) == 0
    assert "branches" not in capsys.readouterr().out
    assert await run_sync(main, ["cluster", "queue", "--journal", cluster.url]) == 0
    assert capsys.readouterr().out == "default: any number at once\n"
    await cluster.submit("child", queue="default.branches")
    assert await run_sync(main, ["cluster", "status", "--journal", cluster.url]) == 0
    assert "default.branches" in capsys.readouterr().out


async def test_a_run_that_is_cancelled_leaves_its_queue_although_no_worker_runs(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    manifest = str(cluster.folder / "team.yaml")
    for run_id, more in (("now", ()), ("late", ("--after", "1h"))):
        submit = ["submit", manifest, "x", "--queue", "nobody", "--run-id", run_id, *more]
        assert await run_sync(main, [*submit, "--journal", cluster.url]) == 0
        assert await run_sync(main, ["runs", "cancel", run_id, "--journal", cluster.url]) == 0
        assert await cluster.client.find(run_id) is None
    capfd.readouterr()
    assert await run_sync(main, ["cluster", "status", "--journal", cluster.url]) == 0
    assert capfd.readouterr().out.startswith("0 workers, 0 open runs")
