"""Budgets as text: in the explanation of a run, while it is live, and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.cli.terminal.result_wording import budget_lines, open_lines
from teamwright.history.member_board import BudgetLevels, Level
from teamwright.values.limits import Amounts, Bounds
from tests.kit.terminal import Call, write_team

TEAM = """\
agents: {writer: {model: primary, limits: {message: {tokens: 900}}}}
teams: {report: {members: [writer], limits: {tokens: 5000, calls: 3}}}
models: {primary: {model: scripted:replies.yaml, price: {input: 0, output: 100}}}
"""
REPLIES = "rules: [{agent: writer, reply: 'Forty characters make just ten tokens.'}]"


def levels(*made: Level) -> BudgetLevels:
    return BudgetLevels(by_scope={level.scope: level for level in made})


def test_every_level_shows_what_it_may_spend_has_spent_and_holds() -> None:  # Z-10
    message = Amounts(tokens=900, usd=0.5, seconds=9.0)
    run = Level("", Bounds(tokens=20_000, usd=0.5, calls=9, seconds=60.0, message=message), 0.0)
    run.spent, run.held = [1200, 25 * 10**10, 3], [400, 10**10, 1]
    told = (
        "  the run: 1 200 (+ 400 reserved) of 20 000 tokens · $0.2500 (+ $0.0100 reserved) of $0.5000"
        " · 3 (+ 1 reserved) of 9 calls · 0.0 s of 60 s · each request at most 900 tokens, $0.5000, 9 s"
    )
    step = Level("t/step-1", Bounds(calls=2), 0.0)
    assert budget_lines(levels(run, step)) == ["", "Budget", told, "  t/step-1: 0 of 2 calls"]
    assert budget_lines(BudgetLevels()) == []


def test_a_level_says_how_much_is_charged_for_calls_of_unknown_cost() -> None:
    run = Level("", Bounds(tokens=5000, usd=1.0, calls=9), 0.0)
    run.spent, run.unreported = [559, 25 * 10**10, 3], [265, 10**11, 0]
    assert budget_lines(levels(run))[-1] == (
        "  the run: 559 of 5 000 tokens, 265 of them for calls of unknown cost"
        " · $0.2500 of $1.00, $0.1000 of it for calls of unknown cost · 3 of 9 calls"
    )


def test_of_many_levels_the_first_are_listed() -> None:
    made = [Level(f"t/{number}", Bounds(calls=1), 0.0) for number in range(30)]
    assert budget_lines(levels(*made))[-1] == "  … and 10 more levels; --json has them all"
    made[0].ended = 1.0
    assert open_lines(levels(*made), 2) == ["t/1: 0 of 1 calls", "t/2: 0 of 1 calls", "and 27 more budgets"]


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    return write_team(tmp_path / "report", TEAM, REPLIES)


def test_show_lists_the_budget_of_every_level(call: Call, priced: Path) -> None:  # Z-10
    done = call("run", priced, "Go", "--run-id", "one", "--max-usd", "1", "--max-seconds", "60", "--json")
    assert (done.code, done.json["usage"]["usd"]) == (0, 0.001)
    text = call("runs", "show", "one").out
    assert "  the run: $0.0010 of $1.00 · 0." in text
    assert "  report: 11 of 5 000 tokens · 1 of 3 calls" in text
    assert "  report/step-1: each request at most 900 tokens" in text
    budget = call("runs", "show", "one", "--json").json["budget"]
    assert [(level["level"], level["spent"]["usd"], level["open"]) for level in budget] == [
        ("", 0.001, False), ("report", 0.001, False), ("report/step-1", 0.001, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [("--max-tokens", "5", "tokens"), ("--max-usd", "0.013", "left"), ("--max-calls", "1", "calls")],
)
def test_every_limit_of_a_run_stops_it(call: Call, team: Path, option: str, value: str, what: str) -> None:  # Z-10
    (team / "team.yaml").write_text((team / "team.yaml").read_text().replace(
        "primary: scripted:replies.yaml", "primary: {model: scripted:replies.yaml, price: {input: 0, output: 1000}}"
    ))  # fmt: skip
    done = call("run", team, "Go", option, value, "--json")
    assert (done.code, done.json["status"], done.json["stop_reason"]) == (4, "degraded", "budget")
    assert what in done.json["failure"]["message"]


@pytest.mark.parametrize(
    "bad", [("--max-tokens", "0"), ("--max-usd", "-1"), ("--max-usd", "nan"), ("--max-seconds", "0")]
)
def test_limits_that_make_no_sense_are_refused(call: Call, team: Path, bad: tuple[str, str]) -> None:
    done = call("run", team, "Go", *bad)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert bad[0] in done.err
