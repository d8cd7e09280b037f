"""A team of sixty-four under a budget that pays for twenty, in real processes, with and without `kill -9`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from teamwright.testing.model_server import ChatRequest, ModelServer, Say
from tests.cli.test_processes import start
from tests.kit.program import run_program
from tests.kit.terminal import write_team

MEMBERS, PAID, WIDE, KILLED_AT = 64, 20, 6, 11
CAP, EACH = 100, 0.001
"""An answer is as long as its cap, and ten dollars a million make it a tenth of a cent; prompts are free of charge."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def wide_team(folder: Path, server: ModelServer, price: str = "{input: 0, output: 10}") -> Path:
    names = [f"m{number}" for number in range(1, MEMBERS + 1)]
    lines = [
        "agents:",
        *(f"  {name}: {{model: primary, max_tokens: {CAP}}}" for name in names),
        "teams:",
        "  wide:",
        "    strategy: fan_out",
        f"    members: [{', '.join(names)}]",
        f"    fan_out: {{chunks: [{', '.join(names)}], max_parallel: {WIDE}}}",
        f"models: {{primary: {{url: '{server.url}', name: tiny, price: {price}}}}}",
    ]
    return write_team(folder, "\n".join(lines))


def told(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def answered(result: dict[str, Any]) -> int:
    return len([one for one in result["data"] if one is not None])


def test_a_token_limit_is_never_exceeded_and_unpaid_work_is_reported(tmp_path: Path) -> None:  # Z-10
    limit = 2100
    with ModelServer(lambda request: Say(text="word " * CAP)) as server:
        team = wide_team(tmp_path / "wide", server)
        done = run_program("run", team, "Go", "--run-id", "one", "--max-tokens", limit, "--json")
        result, shown = told(done), told(run_program("runs", "show", "one", "--json"))
        assert done.returncode == 4, done.stderr
        assert server.count == answered(result) == len(result["messages"])
    assert (result["status"], result["stop_reason"]) == ("degraded", "budget")
    assert limit - 200 < result["usage"]["total_tokens"] <= limit
    assert len(result["data"]) == MEMBERS
    assert result["output"] == result["messages"][-1]["content"]
    assert result["warnings"][0].startswith(
        f"{MEMBERS - answered(result)} of {MEMBERS} parts were not afforded (chunk-"
    )
    (level,) = shown["budget"]
    assert (level["level"], level["limits"]["tokens"]) == ("", limit)
    assert (level["spent"]["tokens"], level["held"]["tokens"]) == (result["usage"]["total_tokens"], 0)


def test_money_for_twenty_answers_buys_twenty(tmp_path: Path) -> None:  # Z-10
    with ModelServer(lambda request: Say(text="word " * CAP)) as server:
        team = wide_team(tmp_path / "wide", server)
        done = run_program("run", team, "Go", "--run-id", "one", "--max-usd", PAID * EACH, "--json")
        result = told(done)
        assert (done.returncode, answered(result), server.count) == (4, PAID, PAID)
        assert result["usage"]["usd"] == PAID * EACH
        assert told(run_program("runs", "list", "--json"))[0]["usd"] == PAID * EACH
        assert "$0.0200 of $0.0200" in run_program("runs", "show", "one").stdout
        whole = run_program("runs", "fork", "one", "--max-usd", 1, "--json")
        assert (whole.returncode, answered(told(whole))) == (3, MEMBERS), "replies at their cap are cut: a warning"
        assert server.count <= MEMBERS + WIDE


def test_what_was_in_flight_when_the_process_was_killed_stays_charged(tmp_path: Path) -> None:  # Z-10
    def answer(request: ChatRequest) -> Say:
        if request.number == KILLED_AT:
            os.killpg(process.pid, signal.SIGKILL)
        return Say(text="word " * CAP)

    with ModelServer(answer) as server:
        team = wide_team(tmp_path / "wide", server)
        process = start("run", team, "Go", "--run-id", "one", "--max-usd", PAID * EACH)
        process.communicate(timeout=50)
        assert process.returncode == -signal.SIGKILL
        events = told(run_program("runs", "export", "one"))["events"]
        ended = {event["key"] for event in events if event["kind"] == "agent.returned"}
        in_flight = [event for event in events if event["kind"] == "agent.called" and event["key"] not in ended]
        assert in_flight
        (level,) = told(run_program("runs", "show", "one", "--json"))["budget"]
        assert level["held"]["usd"] == pytest.approx(len(in_flight) * EACH)
        done = run_program("runs", "resume", "one", "--json")
        result = told(done)
        assert (done.returncode, answered(result)) == (4, PAID - len(in_flight))
        assert server.count <= PAID
    assert (result["status"], result["stop_reason"]) == ("degraded", "budget")
    (level,) = told(run_program("runs", "show", "one", "--json"))["budget"]
    assert (level["spent"]["usd"], level["spent"]["calls"], level["held"]["calls"]) == (PAID * EACH, PAID, 0)
