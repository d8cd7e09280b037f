"""What may change the answers of a team makes it another one, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.lab.experiments.experiment import files_digest, team_identity
from teamwright.teams.team_loader import read_manifest, source_of
from tests.kit.terminal import write_team

TEAM = """\
agents:
  clerk: {model: 'scripted:replies.yaml', tools: [ways, notes]}
tools:
  ways: {skills: {folder: [ways]}}
  notes: {files: {folder: notes}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    team = write_team(tmp_path / "team", TEAM, "rules: [{reply: Fine.}]\n")
    (team / "notes").mkdir()
    (team / "ways" / "tea").mkdir(parents=True)
    (team / "ways" / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: Make tea.\n---\nBoil water.\n")
    return team


def identity(folder: Path, name: str = "") -> str:
    return team_identity(source_of(read_manifest([folder / "team.yaml"])), name)


@pytest.mark.parametrize("file", ["team.yaml", "replies.yaml", "ways/tea/SKILL.md", "code/own.py"])
def test_what_a_team_consists_of_makes_it_another_team(folder: Path, file: str) -> None:
    before = identity(folder)
    (folder / file).parent.mkdir(exist_ok=True)
    with (folder / file).open("a") as opened:
        opened.write("models: {m: openai:x}\n" if file == "team.yaml" else "# more\n")
    assert identity(folder) != before
    assert identity(folder, "again") != identity(folder)


@pytest.mark.parametrize("file", ["notes/today.txt", ".venv/own.py", "env/lib/own.py", "README.md"])
def test_what_it_works_in_and_other_programs_do_not(folder: Path, file: str) -> None:
    before = identity(folder)
    (folder / "env").mkdir()
    (folder / "env" / "pyvenv.cfg").touch()
    (folder / file).parent.mkdir(exist_ok=True, parents=True)
    (folder / file).write_text("x = 1\n")
    assert identity(folder) == before


def test_a_file_of_a_case_counts_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    before = files_digest(tmp_path, ("a.txt",))
    (tmp_path / "a.txt").write_text("two")
    assert files_digest(tmp_path, ("a.txt",)) != before != files_digest(tmp_path, ()) == ""
