"""A new team runs at once, with each strategy."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from teamwright.cli.new import TASK, all_templates
from teamwright.strategies.registry import strategy_names
from tests.kit.terminal import Call


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


@pytest.mark.experts
def test_there_is_a_template_for_every_strategy() -> None:
    assert sorted(all_templates()) == strategy_names()


@pytest.mark.parametrize("strategy", strategy_names())
def test_a_new_team_of_each_strategy_runs_at_once(call: Call, tmp_path: Path, strategy: str) -> None:
    assert call("new", tmp_path / "it", "--strategy", strategy.replace("_", "-")).code == 0
    assert f"strategy: {strategy}\n" in (tmp_path / "it" / "team.yaml").read_text()
    assert call("validate", tmp_path / "it").err == ""
    done = call("run", tmp_path / "it", TASK, "--team", "it", "--json")
    assert (done.code, done.json["status"]) == (0, "completed"), done.err
    assert done.json["output"]
    assert (tmp_path / "it" / "README.md").read_text().count("sourdough") == 1


@pytest.mark.parametrize("name", ["123", "1.5", "null", "true", "1e3", "0x1f"])
def test_a_name_that_yaml_reads_as_something_else_names_a_team(call: Call, tmp_path: Path, name: str) -> None:
    assert call("new", tmp_path / name).code == 0
    assert call("validate", tmp_path / name).code == 0
    assert call("run", tmp_path / name, TASK, "--quiet").code == 0


def test_an_unknown_strategy_is_refused_with_all_that_there_are(call: Call, tmp_path: Path) -> None:
    done = call("new", tmp_path / "it", "--strategy", "nothing-like-it")
    assert done.code == 2
    assert all(name in done.err for name in strategy_names())


def test_an_unknown_strategy_is_refused_with_the_nearest(call: Call, tmp_path: Path) -> None:
    done = call("new", tmp_path / "it", "--strategy", "secuential")
    assert (done.code, "did you mean 'sequential'" in done.err) == (2, True)
    assert not (tmp_path / "it").exists()


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


@pytest.mark.parametrize("strategy", ["sequential", "hierarchical"])
def test_a_new_team_may_have_a_case_that_passes(call: Call, tmp_path: Path, strategy: str) -> None:
    made = call("new", tmp_path / "own", "--strategy", strategy, "--with-tests")
    assert "own/tests/cases/first.yaml" in made.out
    assert call("test", tmp_path / "own").code == 0
    assert call("run", tmp_path / "own", "Go").code == 0
