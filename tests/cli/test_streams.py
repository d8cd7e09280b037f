"""Real processes whose stdin, stdout or stderr is full or closed: no traceback, and no run is lost over it."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_run import ANSWER
from tests.kit.program import run_program
from tests.kit.terminal import Call, write_team

NAMES = ("stdin", "stdout", "stderr")

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")


def redirected(redirection: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program with its streams as a shell sets them up: `>` and `2>` to a device, or closed by `&-`."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL}
    closed: set[int] = set()
    with ExitStack() as stack:
        for number, mode, target in re.findall(r"(\d?)([<>])(\S+)", redirection):
            stream = int(number or mode == ">")
            if target == "&-":
                closed.add(stream)
            else:
                streams[NAMES[stream]] = stack.enter_context(Path(target).open("r+b", buffering=0))
        return run_program(*arguments, closed=closed, **streams)


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")]
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_answer_that_cannot_be_written_is_reported_and_the_run_is_kept(
    call: Call, team: Path, redirection: str, reason: str, options: tuple[str, ...]
) -> None:
    done = redirected(redirection, "run", team, "Go", "--run-id", "one", "--quiet", *options)
    assert done.returncode == 1
    assert done.stderr == (
        f"teamwright: The result can't be written to stdout: {reason}. The run is recorded: teamwright runs show one\n"
    )
    assert call("runs", "list", "--json").json[0]["status"] == "completed"


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "<&-", "2>&- <&-"])
def test_progress_that_cannot_be_shown_stops_no_run(team: Path, redirection: str) -> None:
    done = redirected(redirection, "run", team, "Go")
    assert (done.returncode, done.stdout) == (0, ANSWER)


def test_a_closed_stdin_holds_no_task(team: Path) -> None:
    done = redirected("<&-", "run", team, "-")
    assert done.returncode == 2
    assert "There is no task" in done.stderr


def test_a_run_that_ends_before_it_can_be_interrupted_fails_for_its_lost_events(team: Path) -> None:
    done = redirected(">/dev/full", "run", team, "Go", "--events", "--run-id", "one")
    assert done.returncode in {1, 130}
    assert "No space left on device" in done.stderr


def test_events_that_cannot_be_written_interrupt_the_run(team: Path) -> None:
    (team / "replies.yaml").write_text("rules: [{agent: writer, delay: 30, reply: First.}]")
    done = redirected(">/dev/full", "run", team, "Go", "--events", "--run-id", "one")
    assert done.returncode == 130
    assert done.stderr.splitlines() == [
        "teamwright: The result can't be written to stdout: No space left on device.",
        "interrupted — resume with: teamwright runs resume one",
    ]


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("schema",), ("runs", "list", "--json")])
def test_any_result_that_cannot_be_written_is_one_line(arguments: tuple[str, ...]) -> None:
    done = redirected(">/dev/full", *arguments)
    assert done.returncode == 1
    assert done.stderr == "teamwright: The result can't be written to stdout: No space left on device.\n"


def test_a_file_that_cannot_be_written_loses_neither_run_nor_answer(call: Call, team: Path) -> None:
    done = call("run", team, "Go", "--run-id", "one", "--out", "/dev/full")
    assert done.code == 1
    assert "teamwright runs show one" in done.err


def test_what_a_function_prints_is_no_result(tmp_path: Path) -> None:
    team = write_team(tmp_path / "loud", "agents: {loud: {function: 'printing:say'}}")
    (team / "printing.py").write_text(
        "import sys\nprint('imported')\ndef say(task: str) -> str:\n    print('called')\n    return task\n"
    )
    done = redirected("", "run", team, "Go", "--json")
    assert json.loads(done.stdout)["output"] == "Go"
    assert {"imported", "called"} <= set(done.stderr.splitlines())
    done = redirected("", "run", team, "Go", "--events", "--run-id", "one")
    assert json.loads(done.stdout.splitlines()[-1])["kind"] == "run.ended"
    assert json.loads(redirected("", "validate", team, "--json").stdout)["valid"]
    assert json.loads(redirected("", "show", team, "--json").stdout)["team"] == "loud"
    assert redirected("", "runs", "fork", "one", "Again").stdout == "Again\n"
