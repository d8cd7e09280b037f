from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.journal.sqlite.database import MIGRATIONS
from tests.kit.terminal import Call


def test_a_sound_installation_is_exit_code_0(call: Call, team: Path) -> None:
    done = call("doctor")
    assert done.code == 0
    assert "journal" in done.out
    call("run", team, "Explain")
    told = call("doctor", "--json").json
    assert told["ok"] is True
    journal = next(one for one in told["findings"] if one["name"] == "journal")
    assert f"schema version {len(MIGRATIONS)}, 1 run," in journal["detail"]


def test_looking_changes_nothing(call: Call, tmp_path: Path) -> None:
    call("doctor")
    assert not (tmp_path / "teamwright-home").exists()


def test_a_journal_that_cannot_be_read_is_exit_code_1(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(tmp_path))
    (tmp_path / "journal.db").write_bytes(b"this is no database " * 500)
    done = call("doctor", "--json")
    assert done.code == 1
    assert [one["name"] for one in done.json["findings"] if one["needed"] and not one["ok"]] == ["journal"]


def test_a_data_folder_that_is_a_file_is_exit_code_1(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(tmp_path / "file"))
    done = call("doctor")
    assert done.code == 1
    assert "BAD data folder" in done.out


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody can make anything")
def test_a_data_folder_that_cannot_be_made_is_exit_code_1(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_HOME", "/proc/nothing/there")
    done = call("doctor")
    assert done.code == 1
    assert "BAD data folder: /proc/nothing/there can't be written" in done.out


def test_keys_are_named_and_never_shown(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    done = call("doctor")
    assert "OPENAI_API_KEY" in done.out
    assert "very-secret" not in done.out


def test_secrets_that_cannot_be_masked_are_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    # S-06
    monkeypatch.setenv("POSTGRES_PASSWORD", "postgres")
    monkeypatch.setenv("SHOP_API_KEY", "hush-7f3a-very-secret")
    done = call("doctor")
    assert done.code == 0
    line = next(line for line in done.out.splitlines() if "secrets:" in line)
    assert "POSTGRES_PASSWORD" in line
    assert "SHOP_API_KEY" not in line
    assert "hush-7f3a" not in done.out


def test_the_word_of_a_plain_password_stays_in_a_task(call: Call, team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # S-06
    monkeypatch.setenv("POSTGRES_PASSWORD", "postgres")
    call("run", team, "Upgrade postgres", "--run-id", "one")
    assert "Upgrade postgres" in call("runs", "show", "one").out


def test_git_is_named_and_its_absence_is_no_failure(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "ok  Git: git version" in call("doctor").out
    monkeypatch.setenv("PATH", str(tmp_path))
    done = call("doctor")
    assert done.code == 0
    assert "there is no `git` here" in done.out


def test_what_does_not_hold_for_guests_is_said(call: Call) -> None:
    found = {one["name"]: one["detail"] for one in call("doctor", "--json").json["findings"]}
    assert "not held: agents that its tools run have models of their own" in found["guests of 'pydantic-ai-slim'"]
    assert "not held: a turn is charged what its agent reports" in found["coding agents"]
    assert "guests of 'crewai'" not in found, "it is not installed here"
