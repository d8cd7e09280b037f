"""Real processes: signals, closed pipes, and one process that acts on the run of another."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.testing.model_server import ChatRequest, ModelServer, Say
from tests.kit.program import Program, run_program
from tests.kit.redis import redis_url, shared_redis
from tests.kit.terminal import TEAM, write_team

__all__ = ["redis_url", "shared_redis"]
PROGRAM = [sys.executable, "-m", "teamwright.cli.main"]
SLOW = "rules: [{agent: writer, reply: First.}, {agent: critic, delay: 30, reply: Last.}]"
GRACE = 1.0
"""Seconds that members have to end, where a test shows that they don't."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def start(*arguments: object, grace: float | None = None) -> Program:
    return Program(*arguments, grace=grace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def wait_for(what: Callable[[], bool], timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def events_of(run: str) -> list[str]:
    """The kinds of events so far; empty when there is no such run."""
    done = run_program("runs", "export", run)
    return [event["kind"] for event in json.loads(done.stdout)["events"]] if done.returncode == 0 else []


def start_sleeping(folder: Path, code: str) -> Program:
    """Start a run of a function whose module is this code, and wait until it says that it is asleep."""
    team = write_team(folder / "stuck", "agents: {sleeper: {function: 'sleeping:sleep'}}")
    (team / "sleeping.py").write_text(code)
    process = start("run", team, "Go", "--run-id", "one", grace=GRACE)
    assert process.stderr is not None
    while "asleep" not in process.stderr.readline():
        pass
    return process


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    return write_team(tmp_path / "slow", TEAM, SLOW)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_a_run_which_can_then_be_resumed(slow: Path, number: signal.Signals) -> None:
    process = start("run", slow, "Go", "--run-id", "one")
    assert process.stderr is not None
    while "First." not in process.stderr.readline():
        pass
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted — resume with: teamwright runs resume one" in err
    assert "Traceback" not in err
    assert out == ""
    (slow / "replies.yaml").write_text("rules: [{agent: critic, reply: Last.}]")
    done = run_program("runs", "resume", "one")
    assert (done.returncode, done.stdout) == (0, "Last.\n")


def test_a_function_that_cannot_be_stopped_does_not_hold_up_the_end(tmp_path: Path) -> None:
    process = start_sleeping(
        tmp_path,
        "import sys, time\ndef sleep(task: str) -> str:\n"
        "    print('asleep', file=sys.stderr, flush=True)\n    time.sleep(60)\n    return task\n",
    )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "runs resume one" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_async_function_that_blocks_the_event_loop_does_not_hold_up_the_end(  # D-01
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start_sleeping(
        tmp_path,
        "import sys, time\nasync def sleep(task: str) -> str:\n"
        "    print('asleep', file=sys.stderr, flush=True)\n    time.sleep(60)\n    return task\n",
    )
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "did not stop and was abandoned — resume with: teamwright runs resume one" in err
    assert events_of("one")[0] == "run.started"


def blocking_team(folder: Path) -> Path:
    team = write_team(folder, "agents: {sleeper: {function: 'sleeping:sleep'}}")
    (team / "sleeping.py").write_text(
        "import sys, time\nasync def sleep(task: str) -> str:\n"
        "    print('asleep', file=sys.stderr, flush=True)\n    time.sleep(60)\n    return task\n"
    )
    return team


def test_a_time_limit_ends_a_process_whose_event_loop_is_blocked(tmp_path: Path) -> None:  # D-01
    done = run_program(
        "run",
        blocking_team(tmp_path / "stuck"),
        "Go",
        "--run-id",
        "one",
        "--max-seconds",
        "1",
        grace=GRACE,
        timeout=40,
    )
    assert done.returncode == 130
    assert "did not stop and was abandoned" in done.stderr


def test_a_cancel_ends_a_process_whose_event_loop_is_blocked(tmp_path: Path) -> None:  # D-01
    process = start("run", blocking_team(tmp_path / "stuck"), "Go", "--run-id", "one", grace=GRACE)
    assert process.stderr is not None
    while "asleep" not in process.stderr.readline():
        pass
    assert run_program("runs", "cancel", "one", timeout=40).returncode == 0
    process.communicate(timeout=5)
    assert process.returncode == 130
    assert events_of("one")[-1] == "run.ended"


@pytest.mark.parametrize("inside", ["swallow()", "asyncio.gather(swallow(), swallow())"])
def test_an_async_function_that_swallows_cancellation_does_not_hold_up_the_end(  # D-01
    tmp_path: Path, inside: str
) -> None:
    process = start_sleeping(
        tmp_path,
        "import asyncio, sys\nasync def swallow() -> str:\n"
        "    print('asleep', file=sys.stderr, flush=True)\n"
        "    while True:\n        try:\n            await asyncio.sleep(60)\n"
        "        except asyncio.CancelledError:\n            pass\n"
        f"async def sleep(task: str) -> str:\n    await {inside}\n    return task\n",
    )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted — resume with: teamwright runs resume one" in err
    assert events_of("one")[-2:] == ["agent.abandoned", "run.interrupted"]


def test_watching_a_run_of_another_process_ends_at_once_on_a_signal(slow: Path) -> None:  # D-07
    driver = start("run", slow, "Go", "--run-id", "one")
    assert driver.stderr is not None
    while "First." not in driver.stderr.readline():
        pass
    watcher = start("run", slow, "Go", "--run-id", "one")
    assert watcher.stderr is not None
    while "First." not in watcher.stderr.readline():
        pass
    watcher.send_signal(signal.SIGINT)
    _, err = watcher.communicate(timeout=5)
    assert watcher.returncode == 130
    assert "run one continues in another process" in err
    assert driver.poll() is None
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=20)


def test_a_run_that_was_started_with_sigint_ignored_says_how_to_stop_it(slow: Path) -> None:  # M-11
    ignored = subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *PROGRAM, "run", str(slow), "Go", "--run-id", "one"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ignored.stderr is not None
    seen = ""
    while "First." not in (line := ignored.stderr.readline()):
        seen += line
    ignored.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert ignored.poll() is None
    ignored.send_signal(signal.SIGTERM)
    ignored.communicate(timeout=20)
    assert "SIGINT is ignored in this process" in seen
    assert ignored.returncode == 130


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    team = write_team(tmp_path / "stuck", "agents: {sleeper: {function: 'sleeping:sleep'}}")
    (team / "sleeping.py").write_text(
        "import os, signal, time\ndef sleep(task: str) -> str:\n"
        "    for _ in range(2):\n        os.kill(os.getpid(), signal.SIGINT)\n        time.sleep(0.3)\n"
        "    time.sleep(60)\n    return task\n"
    )
    process = start("run", team, "Go")
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_a_run_interrupted_with_json_still_prints_one_document(slow: Path) -> None:
    process = start("run", slow, "Go", "--run-id", "one", "--json")
    assert process.stderr is not None
    while "First." not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert json.loads(out)["status"] == "interrupted"
    assert [message["content"] for message in json.loads(out)["messages"]] == ["First."]


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path, team: Path) -> None:
    brisk = write_team(tmp_path / "brisk", TEAM, SLOW.replace("30", "2"))
    for arguments in (("run", brisk, "Go", "--events"), ("runs", "list"), ("run", team, "Go"), ("schema",)):
        process = start(*arguments)
        assert process.stdout is not None
        assert process.stderr is not None
        if "--events" in arguments:
            process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        process.wait(timeout=30)
        assert "Traceback" not in err
        assert "Exception" not in err


def test_a_live_run_is_followed_and_cancelled_from_another_process(slow: Path) -> None:
    process = start("run", slow, "Go", "--run-id", "one", "-q")
    wait_for(lambda: "agent.replied" in events_of("one"))
    assert run_program("runs", "resume", "one").returncode == 1
    assert json.loads(run_program("runs", "list", "--json").stdout)[0]["status"] == "running"
    tail = start("runs", "show", "one", "--follow", "--events")
    assert tail.stdout is not None
    assert json.loads(tail.stdout.readline())["kind"] == "run.started"
    done = run_program("runs", "cancel", "one", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "cancelled")
    process.communicate(timeout=20)
    assert process.returncode == 6
    followed = [json.loads(line) for line in tail.stdout.read().splitlines()]
    tail.communicate(timeout=20)
    assert followed[-1]["kind"] == "run.ended"
    assert [event["number"] for event in followed] == list(range(2, len(followed) + 2))


@pytest.mark.cluster
def test_words_of_a_live_run_are_seen_in_another_process_over_redis(tmp_path: Path, redis_url: str) -> None:
    words = "rules: [{agent: writer, delay: 20, reply: one two three four five six}, {agent: critic, reply: Last.}]"
    team = write_team(tmp_path / "words", TEAM, words)
    process = start("run", team, "Go", "--run-id", "one", "--events", "--redis", redis_url)
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["kind"] != "agent.called":
        pass
    tail = start("runs", "show", "one", "--follow", "--events", "--redis", redis_url)
    assert tail.stdout is not None
    kinds: list[str] = []
    while "delta.text" not in kinds:
        kinds.append(json.loads(tail.stdout.readline())["kind"])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    kinds += [json.loads(line)["kind"] for line in tail.stdout.read().splitlines()]
    tail.communicate(timeout=20)
    assert (kinds[0], kinds[-1]) == ("run.started", "run.interrupted")


def test_a_chain_of_50_that_is_killed_resumes_without_paying_twice(tmp_path: Path) -> None:
    """Each recorded request is made once; the one in flight may be made again."""
    names = [f"m{number}" for number in range(1, 51)]

    def answer(request: ChatRequest) -> Say:
        if request.number == 30:
            os.killpg(process.pid, signal.SIGKILL)
        return Say(text=f"Reply {request.number}.")

    with ModelServer(answer) as server:
        agents = "\n".join(f"  {name}: {{model: primary}}" for name in names)
        team = f"agents:\n{agents}\nteams:\n  chain: {{members: [{', '.join(names)}], share: output}}\n"
        team += f"models:\n  primary: {{url: '{server.url}', name: tiny}}\n"
        folder = write_team(tmp_path / "chain", team)
        process = start("run", folder, "Go", "--run-id", "one")
        process.communicate(timeout=50)
        assert process.returncode == -signal.SIGKILL
        assert json.loads(run_program("runs", "list", "--json").stdout)[0]["status"] == "interrupted"
        done = run_program("runs", "resume", "one", "--json")
        assert done.returncode == 0, done.stderr
        assert server.count in {50, 51}
        result = json.loads(done.stdout)
    assert [message["name"] for message in result["messages"]] == names
    assert result["status"] == "completed"
    assert "in doubt" in run_program("runs", "show", "one").stdout


def in_terminal(*arguments: object, **environment: str) -> tuple[str, str]:
    """Run the program with its stderr in a terminal; gives stdout and what the terminal got."""
    import pty

    near, far = pty.openpty()
    surroundings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **environment}
    process = Program(*arguments, stdout=subprocess.PIPE, stderr=far, env=surroundings)
    os.close(far)
    shown = b""
    while True:
        try:
            piece = os.read(near, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(near)
    out, _ = process.communicate(timeout=20)
    return out, shown.decode(errors="replace")


def test_a_terminal_gets_a_live_view_and_its_cursor_back(tmp_path: Path) -> None:
    team = write_team(
        tmp_path / "team", TEAM, "rules: [{agent: writer, delay: 0.5, reply: First part.}, {reply: Last.}]"
    )
    out, shown = in_terminal("run", team, "Go")
    assert out == "Last.\n"
    for words in ("streaming", "waiting", "First part.", "completed (done)"):
        assert words in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_no_color_means_no_color(team: Path) -> None:
    coloured = re.compile(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;)[0-9;]*m")
    assert coloured.search(in_terminal("run", team, "Go")[1])
    assert not coloured.search(in_terminal("run", team, "Go", NO_COLOR="1")[1])


def test_a_full_disk_or_locked_folder_is_reported_clearly(team: Path, tmp_path: Path) -> None:
    home = tmp_path / "file-not-folder"
    home.write_text("")
    done = run_program("run", team, "Go", env={**os.environ, "TEAMWRIGHT_HOME": str(home)})
    assert done.returncode == 1
    assert "TEAMWRIGHT_HOME" in done.stderr
    assert "Traceback" not in done.stderr
