import json
from pathlib import Path

import pytest

from teamwright.cli.main import main
from tests.kit.postgres import postgres_server, schema_url

__all__ = ["postgres_server"]


@pytest.fixture
def team(tmp_path: Path) -> str:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: hello from one}]")
    (tmp_path / "team.yaml").write_text("agents: {one: {model: scripted:replies.yaml}}")
    return str(tmp_path / "team.yaml")


def test_commands_use_the_journal_that_is_named_wherever_the_option_stands(
    team: str, tmp_path: Path, postgres_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = schema_url(postgres_server, tmp_path)
    assert main(["run", team, "task", "--journal", url, "--json"]) == 0
    run_id = json.loads(capsys.readouterr().out)["run_id"]
    assert main([f"--journal={url}", "runs", "list", "--json"]) == 0
    assert [run["id"] for run in json.loads(capsys.readouterr().out)] == [run_id]
    assert main(["runs", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_runs_are_copied_to_postgres_and_shown_there(
    team: str, tmp_path: Path, postgres_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = schema_url(postgres_server, tmp_path), str(tmp_path / "own.db")
    assert main(["run", team, "task", "--journal", file, "--json"]) == 0
    run_id = json.loads(capsys.readouterr().out)["run_id"]
    assert main(["runs", "export", "--journal", file, "--out", url]) == 0
    assert "1 runs: 1 copied" in capsys.readouterr().out
    assert main(["runs", "export", run_id, "--journal", file, "--out", url, "--json"]) == 0
    assert [(run["run_id"], run["outcome"]) for run in json.loads(capsys.readouterr().out)] == [(run_id, "present")]
    assert main(["runs", "show", run_id, "--journal", url]) == 0
    assert "hello from one" in capsys.readouterr().out


def test_a_journal_that_is_not_there_is_an_error_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "export", "--journal", str(tmp_path / "none.db"), "--out", str(tmp_path / "new.db")]) == 2
    assert "There is no journal" in capsys.readouterr().err


def test_a_document_holds_one_run_and_a_journal_holds_many(
    team: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        assert main(["run", team, "task", "--run-id", name]) == 0
    assert main(["runs", "export", "one", "two"]) == 2
    assert "Name one run to export" in capsys.readouterr().err
    assert main(["runs", "export", "--out", str(tmp_path / "copy.db")]) == 0
    assert "2 runs: 2 copied" in capsys.readouterr().out
    assert main(["runs", "list", "--journal", str(tmp_path / "copy.db"), "--json"]) == 0
    assert {run["id"] for run in json.loads(capsys.readouterr().out)} == {"one", "two"}


def test_a_server_that_does_not_answer_is_told_without_the_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list", "--journal", "postgresql://ada:hunter2@127.0.0.1:1/db"]) != 0
    told = capsys.readouterr().err
    assert "can't be reached" in told
    assert "hunter2" not in told
