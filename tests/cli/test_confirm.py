"""`run --confirm` and `confirm: {above}`: a run shows what it will cost, and spends nothing before a person agrees."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.test_processes import events_of, start, wait_for
from tests.cli.test_question_prompt import Terminal
from tests.kit.program import run_program
from tests.kit.terminal import REPLIES, TEAM, Call, write_team

pytestmark = pytest.mark.lab  # which makes the forecast
ABOVE = TEAM.replace("members: [writer, critic]", "members: [writer, critic], confirm: {above: {tokens: 10}}")
BELOW = TEAM.replace(
    "members: [writer, critic]", "members: [writer, critic], confirm: {above: {usd: 1, tokens: 90000}}"
)
ANSWER = "That is right, and short.\n"


def test_without_a_terminal_the_run_is_paused_with_its_forecast(call: Call, team: Path) -> None:
    done = call("run", team, "Explain", "--confirm", "--run-id", "one", "--max-tokens", 5000, "--json")
    assert done.code == 7
    assert (done.json["status"], done.json["stop_reason"]) == ("paused", "approval")
    assert done.json["usage"]["total_tokens"] == 0
    assert done.json["questions"]["report/confirm"]["choices"] == ["yes", "smaller", "no"]
    forecast = done.json["forecast"]
    assert (forecast["basis"], forecast["asks"]) == ("simulation", {"p50": 2.0, "p90": 2.0})
    assert 0 < forecast["tokens"]["p50"] < forecast["tokens"]["p90"]
    assert forecast["ceiling"]["tokens"] == 5000
    assert "| ceiling   5,000 tokens" in done.err
    assert "runs answer one yes   (or smaller --max-usd X, smaller --max-tokens N, or no)" in done.err


def test_yes_lets_the_paused_run_begin(call: Call, team: Path) -> None:
    assert call("run", team, "Explain", "--confirm", "--run-id", "one").code == 7
    assert call("runs", "answer", "one", "yes").code == 0
    done = call("runs", "resume", "one")
    assert (done.code, done.out) == (0, ANSWER)


def test_no_cancels_the_paused_run(call: Call, team: Path) -> None:
    assert call("run", team, "Explain", "--confirm", "--run-id", "one").code == 7
    assert call("runs", "answer", "one", "no").code == 0
    done = call("runs", "resume", "one", "--json")
    assert (done.code, done.json["status"], done.json["usage"]["total_tokens"]) == (6, "cancelled", 0)


def test_smaller_lets_it_begin_under_a_lower_ceiling(call: Call, team: Path) -> None:
    assert call("run", team, "Explain", "--confirm", "--run-id", "one").code == 7
    assert call("runs", "answer", "one", "smaller").code == 2
    assert call("runs", "answer", "one", "yes", "--max-tokens", 9).code == 2
    assert call("runs", "answer", "one", "smaller", "--max-tokens", 9).code == 0
    done = call("runs", "resume", "one", "--json")
    assert (done.code, done.json["stop_reason"]) == (4, "budget")
    assert done.json["usage"]["total_tokens"] <= 9
    assert "was answered: smaller (at most 9 tokens)" in call("runs", "show", "one").out


def test_a_manifest_asks_above_its_amount_alone(call: Call, tmp_path: Path) -> None:
    assert call("run", write_team(tmp_path / "above", ABOVE, REPLIES), "Explain").code == 7
    done = call("run", write_team(tmp_path / "below", BELOW, REPLIES), "Explain")
    assert (done.code, done.out) == (0, ANSWER)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{euro: 1}", "'euro' is not a field here"),
        ("{usd: much}", "usd"),
        ("{}", "needs an amount: tokens or usd"),
        ("1", "above"),
    ],
)
def test_a_wrong_amount_is_refused_at_load_with_its_place(
    call: Call, tmp_path: Path, written: str, message: str
) -> None:
    folder = write_team(tmp_path / "wrong", ABOVE.replace("{tokens: 10}", written), REPLIES)
    done = call("validate", folder)
    assert done.code == 2
    assert message in done.out + done.err
    assert "team.yaml:5:" in done.out + done.err


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")
@pytest.mark.parametrize(
    ("typed", "code", "out"), [("y\n", 0, ANSWER), ("smaller\nlots\n90000 tokens\n", 0, ANSWER), ("no\n", 6, "")]
)
def test_at_a_terminal_it_asks_before_anything_is_spent(team: Path, typed: str, code: int, out: str) -> None:
    terminal = Terminal("run", team, "Explain", "--confirm")
    terminal.until("yes / smaller / no / later>")
    assert "? May this run of 'report' begin?" in terminal.shown
    assert "none: no limit on tokens or money is set" in terminal.shown
    assert "▸" not in terminal.shown
    terminal.types(typed)
    assert terminal.ended() == (code, out)
    assert ("'lots' is no ceiling" in terminal.shown) == ("lots" in typed)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_run_that_is_killed_while_it_waits_is_confirmed_by_another_process(tmp_path: Path, team: Path) -> None:
    terminal = Terminal("run", team, "Explain", "--confirm", "--run-id", "one")
    terminal.until("yes / smaller / no / later>")
    wait_for(lambda: "person.asked" in events_of("one"))
    os.killpg(terminal.process.pid, signal.SIGKILL)
    assert terminal.ended()[0] == -signal.SIGKILL
    assert run_program("runs", "resume", "one").returncode == 7
    assert run_program("runs", "answer", "one", "yes").returncode == 0
    process = start("runs", "resume", "one")
    out, _ = process.communicate(timeout=50)
    assert (process.returncode, out) == (0, ANSWER)
    kinds = events_of("one")
    assert (kinds.count("person.asked"), kinds.count("person.answered"), kinds.count("agent.returned")) == (1, 1, 2)
