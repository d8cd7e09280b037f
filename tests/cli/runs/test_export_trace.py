from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from teamwright.cli.main import main
from teamwright.history.telemetry.otlp import ENDPOINT
from teamwright.history.telemetry.spans import trace_id
from tests.kit.telemetry import OtlpReceiver, attributes_of

SLOW = """
import asyncio
from teamwright import Turn

async def slow(turn: Turn) -> str:
    await asyncio.sleep(0.4)
    return "done"
"""


@pytest.fixture
def run_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: hello from one}]")
    (tmp_path / "team.yaml").write_text("agents: {one: {model: scripted:replies.yaml}}")
    assert main(["run", str(tmp_path / "team.yaml"), "the task", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["run_id"]


def test_a_run_is_sent_to_a_receiver(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    with OtlpReceiver() as receiver:
        assert main(["runs", "export", "last", "--out", receiver.url]) == 0
        assert main(["runs", "export", run_id, "--json", "--out", receiver.url]) == 0
    assert receiver.posts[0].body == receiver.posts[1].body, "exporting twice is the same export"
    said = capsys.readouterr()
    assert f"the trace is {trace_id(run_id).hex()}" in said.err
    assert json.loads(said.out)["trace_id"] == trace_id(run_id).hex()
    assert b"hello" not in receiver.posts[0].body


def test_a_trace_is_written_as_json_with_what_was_said_only_if_asked_for(run_id: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.otlp"
    assert main(["runs", "export", "last", "--out", str(file)]) == 0
    written = file.read_text()
    assert [len(span["traceId"]) for span in json.loads(written)["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert "hello" not in written
    assert main(["runs", "export", run_id, "--full", "--out", str(file)]) == 0
    assert "hello from one" in file.read_text()


def test_a_trace_is_of_one_run_that_is_there(run_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "export", "none-such", "--out", str(tmp_path / "trace.otlp")]) == 2
    assert main(["runs", "export", "--out", "http://localhost:1"]) == 2
    assert "Name one run" in capsys.readouterr().err
    assert main(["runs", "export", run_id, "--out", "http://"]) == 2
    assert "name an http address" in capsys.readouterr().err


def test_a_receiver_that_does_not_take_a_run_fails_the_command(
    run_id: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teamwright.cli.runs.export.WAITS", (0.01,))
    with OtlpReceiver([500]) as receiver:
        assert main(["runs", "export", run_id, "--out", receiver.url]) == 1
    assert "answers HTTP 500" in capsys.readouterr().err
    with OtlpReceiver([503, 200]) as receiver:
        assert main(["runs", "export", run_id, "--out", receiver.url]) == 0
        assert len(receiver.posts) == 2


def test_a_live_run_that_is_killed_continues_its_trace_when_it_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    members = "\n".join(f"  m{number}: {{function: slow:slow}}" for number in range(4))
    (tmp_path / "team.yaml").write_text(f"agents:\n{members}\nteams: {{t: {{members: [m0, m1, m2, m3]}}}}\n")
    with OtlpReceiver() as receiver:
        environment = {**os.environ, ENDPOINT: receiver.url}
        command = [sys.executable, "-m", "teamwright", "run", "team.yaml", "task", "--run-id", "r", "-q"]
        started = subprocess.Popen(command, cwd=tmp_path, env=environment)
        deadline = time.monotonic() + 40
        while not any(span.name == "invoke_agent m0" for span in receiver.taken):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        started.send_signal(signal.SIGKILL)
        started.wait()
        before = {span.span_id for span in receiver.taken}
        resume = [sys.executable, "-m", "teamwright", "runs", "resume", "r", "-q", "--otlp", receiver.url]
        subprocess.run(resume, cwd=tmp_path, env=os.environ, check=True, capture_output=True, timeout=50)
        sent = {span.span_id: span.SerializeToString(deterministic=True) for span in receiver.taken}
        for span in receiver.taken:
            assert sent[span.span_id] == span.SerializeToString(deterministic=True), "it was sent twice as the same"
        receiver.posts.clear()
        assert main(["runs", "export", "r", "--out", receiver.url]) == 0
        whole = {span.span_id: span.SerializeToString(deterministic=True) for span in receiver.taken}
    assert sent == whole
    assert before <= whole.keys()
    drives = [attributes_of(span) for span in receiver.taken if span.name == "run t"]
    assert [one["teamwright.ended_by"] for one in drives] == ["lost", "end"]
