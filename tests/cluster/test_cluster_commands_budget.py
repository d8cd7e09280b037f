"""`teamwright cluster budget`, and commands that name a budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teamwright.cli.main import main
from tests.kit.postgres import schema_url

TEAM = "agents: {writer: {model: scripted:replies.yaml}}"
REPLIES = "rules: [{reply: It is done.}]"


@pytest.fixture
def journal(postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = schema_url(postgres_server, tmp_path)
    monkeypatch.setenv("TEAMWRIGHT_JOURNAL", url)
    return url


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "team.yaml"
    path.write_text(TEAM, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    return str(path)


@pytest.mark.usefixtures("journal")
def test_a_budget_is_set_shown_and_removed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "budget"]) == 0
    assert capfd.readouterr().out == "There are no budgets yet.\n"
    assert main(["cluster", "budget", "team-a", "--max-usd", "50", "--max-tokens", "1000", "--per", "ever"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "team-a: $50 in all; $0 spent, $0 reserved, $50 left",
        "team-a: 1,000 tokens in all; 0 tokens spent, 0 tokens reserved, 1,000 tokens left",
    ]
    assert main(["cluster", "budget", "team-a", "--max-usd", "0.5", "--per", "day", "--json"]) == 0
    (shown,) = json.loads(capfd.readouterr().out)
    assert (shown["name"], shown["usd"], shown["left_usd"], shown["tokens"]) == ("team-a", 0.5, 0.5, None)
    assert shown["until"].endswith("00:00 UTC")
    assert main(["cluster", "budget", "team-a", "--remove"]) == 0
    assert main(["cluster", "budget", "team-a", "--remove"]) == 2
    assert "There is no budget 'team-a'" in capfd.readouterr().err


@pytest.mark.usefixtures("journal")
def test_a_run_draws_on_a_budget_and_is_refused_where_there_is_no_room(
    manifest: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "budget", "team-a", "--max-tokens", "1000", "--per", "ever"]) == 0
    run = ["run", manifest, "hello", "--budget", "team-a", "--json"]
    assert main(run) == 2
    assert "give it one with --max-tokens" in capfd.readouterr().err
    assert main([*run, "--max-tokens", "1001"]) == 4
    assert "The budget 'team-a' has 1,000 tokens of 1,000 tokens left" in capfd.readouterr().err
    assert main([*run, "--max-tokens", "1000"]) == 0
    used = json.loads(capfd.readouterr().out)["usage"]["total_tokens"]
    assert used > 0
    submit = ["submit", manifest, "hello", "--budget", "team-a", "--json"]
    assert main([*submit, "--max-tokens", "1000"]) == 4
    assert main([*submit, "--max-tokens", "900", "--run-id", "queued"]) == 0
    capfd.readouterr()
    assert main(["cluster", "budget", "--json"]) == 0
    (shown,) = json.loads(capfd.readouterr().out)
    assert (shown["spent_tokens"], shown["reserved_tokens"], shown["runs"]) == (used, 900, 1)
    assert main(["runs", "cancel", "queued"]) == 0
    capfd.readouterr()
    assert main(["cluster", "budget"]) == 0
    assert f"{used} tokens spent, 0 tokens reserved, {1000 - used} tokens left" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--max-usd", "5", "--per", "day"], "Which budget?"),
        (["a", "--max-usd", "5"], "needs a bound and a period"),
        (["a", "--per", "day"], "needs a bound and a period"),
        (["a", "--max-usd", "5", "--per", "hour"], "'hour'"),
        (["a", "--max-usd", "-1", "--per", "day"], "can't be -1.0 dollars"),
        (["a", "--max-usd", "5", "--per", "day", "--remove"], "--remove removes the budget"),
        (["a b"], "'a b'"),
        ([], "Only a journal in Postgres keeps budgets"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], problem: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "budget", *arguments]) == 2
    assert problem in " ".join(capfd.readouterr().err.split())
