from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teamwright.cli.main import main

pytestmark = pytest.mark.experts


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["experts", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_list_names_the_built_in_templates(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys)
    assert len(found) == 12
    assert {one["built_in"] for one in found} == {True}
    assert main(["experts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("analyst            Turns a vague question into one")


def test_a_template_with_mistakes_is_named_with_them_and_the_others_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "experts").mkdir()
    (tmp_path / "experts" / "broken.yaml").write_text("descripton: Oh.\n", encoding="utf-8")
    for arguments in ([], ["threat"]):
        assert main(["experts", *arguments]) == 0
        said = capsys.readouterr()
        assert "security_reviewer" in said.out
        assert "broken.yaml:1:1" in said.err
        assert "did you mean 'description'" in said.err
    assert len(printed(capsys)) == 12


def test_show_prints_a_template_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experts", "reviewer"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("🔎 reviewer (built in)\nReviews a change")
    assert "## How you disagree" in text
    assert printed(capsys, "reviewer")["color"] == "#b45309"


def test_search_puts_the_best_first_and_says_if_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "threat", "modelling")[0]["name"] == "security_reviewer"
    assert printed(capsys, "zzz") == []
    assert main(["experts", "zzz"]) == 0
    assert "No template fits" in capsys.readouterr().err
    assert main(["experts", "reviwer"]) == 0
    assert "did you mean 'reviewer'" in capsys.readouterr().err


def test_new_writes_a_template_that_loads_and_never_overwrites_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "translator", "--from", "blank") == {"name": "translator", "file": "experts/translator.yaml"}
    shown = printed(capsys, "translator")
    assert (shown["built_in"], shown["avatar"]) == (False, "🙂")
    assert main(["experts", "translator", "--from", "blank"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["experts"]) == 0
    assert "translator         own  What the expert does" in capsys.readouterr().out


def test_new_copies_a_template(capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "strict", "--from", "reviewer", "--folder", "mine")
    assert printed(capsys, "strict", "--folder", "mine")["color"] == "#b45309"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a b", "--from", "blank"), "'a b' is no name of an expert"),
        (("x", "--from", "none"), "expert template 'none'"),
        (("--from", "editor"), "Name the new template"),
    ],
)
def test_what_can_t_be_done_exits_with_2(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experts", *arguments]) == 2
    assert said in capsys.readouterr().err
