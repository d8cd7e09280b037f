"""Commands on runs that were submitted: they find the files that travelled with a run, and follow it from the queue."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync

from teamwright.cli.main import main
from tests.kit.postgres import schema_url
from tests.kit.workers import PATIENCE, Cluster

TEAM = """\
agents:
  first: {model: scripted:replies.yaml}
  second: {model: "scripted:more/replies.yaml", instructions: Go on.}
teams:
  pair: {strategy: sequential, members: [first, second]}
"""


class Submitted:
    """A machine with an empty folder, on which a run is known that another machine has submitted."""

    def __init__(self, url: str, capfd: pytest.CaptureFixture[str]) -> None:
        self.url, self._capfd = url, capfd

    def __call__(self, *arguments: str) -> Any:
        """Call the program, which must succeed, and return its result."""
        self._capfd.readouterr()
        code = main([*arguments, "--journal", self.url, "--json"])
        printed = self._capfd.readouterr()
        assert code == 0, printed.err
        return json.loads(printed.out)


@pytest.fixture
def elsewhere(
    postgres_server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Submitted:
    """Submit the run `one` from a folder, which is removed, and go to an empty one."""
    folder, empty = tmp_path / "submitter", tmp_path / "empty"
    (folder / "more").mkdir(parents=True)
    empty.mkdir()
    (folder / "team.yaml").write_text(TEAM, encoding="utf-8")
    (folder / "replies.yaml").write_text("rules: [{agent: first, reply: begun}]\n", encoding="utf-8")
    (folder / "more" / "replies.yaml").write_text("rules: [{agent: second, reply: done}]\n", encoding="utf-8")
    called = Submitted(schema_url(postgres_server, tmp_path), capfd)
    called("submit", str(folder / "team.yaml"), "the task", "--run-id", "one", "--after", "1h")
    shutil.rmtree(folder)
    monkeypatch.chdir(empty)
    return called


def test_every_command_finds_the_files_that_travelled_with_a_run(elsewhere: Submitted, tmp_path: Path) -> None:
    allowed = ("--allow-root", str(tmp_path))
    assert elsewhere("runs", "resume", "one", "--no-input", *allowed)["output"] == "done"
    prompt = elsewhere("runs", "show", "one", "step-2")
    assert (prompt["problem"], [one["is_exact"] for one in prompt["requests"]]) == ("", [True])
    report = elsewhere("runs", "what-if", "one", "--max-calls", "1")
    assert report["stop_reason"] == "budget"
    forked = elsewhere("runs", "fork", "one", "--at", "5", "--run-id", "two", "--no-input", *allowed)
    assert forked["output"] == "done"
    continued = elsewhere("run", "--continue", "one", "and then?", "--run-id", "three", "--no-input")
    assert continued["output"] == "done"
    shutil.rmtree(tmp_path / "teamwright-home" / "run-files")
    for run_id in ("two", "three"):
        prompt = elsewhere("runs", "show", run_id, "step-2")
        assert (prompt["problem"], prompt["requests"][0]["is_exact"]) == ("", True), "files travel with these too"


async def test_tail_says_that_a_run_waits_and_follows_it_on(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    await cluster.submit("one")
    printed = ""

    async def until(words: str) -> None:
        nonlocal printed
        while words not in printed:
            await asyncio.sleep(0.02)
            printed += capfd.readouterr().out

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        tail = tasks.create_task(run_sync(main, ["runs", "show", "one", "--follow", "--journal", cluster.url]))
        await until("waits in the queue 'default' for a worker")
        assert "run resumed" not in printed
        cluster.start()
        assert await tail == 0
        await until("completed")
    assert "run resumed" in printed
    assert "one is done" in printed


def test_a_queued_run_that_was_copied_to_a_file_can_be_cancelled(elsewhere: Submitted, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.db")
    assert main(["runs", "export", "--journal", elsewhere.url, "--out", copy]) == 0
    assert main(["runs", "cancel", "one", "--journal", copy]) == 0


def test_a_queued_run_is_deleted_only_after_it_was_cancelled(
    elsewhere: Submitted, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "delete", "one", "--yes", "--journal", elsewhere.url]) == 2
    assert "teamwright runs cancel one" in capfd.readouterr().err
    elsewhere("runs", "cancel", "one")
    assert elsewhere("runs", "delete", "one", "--yes")["deleted"] == ["one"]
    assert elsewhere("runs", "list") == []
