from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Call


def test_a_new_team_runs_at_once_with_the_command_it_says(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = call("new", "my-team", "--json").json
    assert sorted(made["files"]) == ["my-team/README.md", "my-team/replies.yaml", "my-team/team.yaml"]
    assert call("validate", "my-team").code == 0
    command = shlex.split(made["command"])
    assert command[0] == "teamwright"
    done = call(*command[1:])
    assert done.code == 0
    assert "Sourdough" in done.out


def test_nothing_that_exists_is_overwritten(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    assert call("new", folder).code == 0
    before = (folder / "team.yaml").read_text()
    again = call("new", folder)
    assert again.code == 2
    assert "exists already" in again.err
    assert (folder / "team.yaml").read_text() == before
    (tmp_path / "file").write_text("x")
    assert call("new", tmp_path / "file").code == 2


def test_a_name_that_is_none_is_refused_with_a_suggestion(call: Call, tmp_path: Path) -> None:
    done = call("new", tmp_path / "größe")
    assert done.code == 2
    assert "for example 'gr-e'" in done.err
    assert not (tmp_path / "größe").exists()
