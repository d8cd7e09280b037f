"""File tools reach below the manifest's own folder; any other folder has to be allowed by the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.cli.main import main
from teamwright.errors import UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.builder import allowed_roots, checked_root
from teamwright.teams.team_loader import load_team, read_manifest, source_of, source_with_roots, team_from_source
from teamwright.values.specs.manifest import Source

SCRIPT = """
rules:
  - {tool: {name: write_file, args: {path: note.txt, content: hello}}, times: 1}
  - {reply: done}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (folder / "inside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "back").symlink_to(folder / "inside")
    (folder / "script.yaml").write_text(SCRIPT)
    return folder


def manifest(home: Path, root: str, *, declared: bool = False) -> Path:
    tool = f"{{files: {{folder: '{root}'}}}}"
    used = "[disk]" if declared else f"[{tool}]"
    tools = f"tools: {{disk: {tool}}}\n" if declared else ""
    file = home / "team.yaml"
    file.write_text(
        f"{tools}agents: {{a: {{model: scripted:script.yaml, tools: {used}}}}}\nteams: {{t: {{members: [a]}}}}\n"
    )
    return file


OUTSIDE = ["../outside", "link", "/", "/etc", "inside/../../outside", "link/..", "OUT", "..", "inside/../.."]


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("root", OUTSIDE)
def test_a_folder_outside_needs_to_be_allowed(
    home: Path, capsys: pytest.CaptureFixture[str], root: str, declared: bool
) -> None:  # S-04
    file = manifest(home, str(home.parent / "outside") if root == "OUT" else root, declared=declared)
    for command in (["validate", str(file)], ["validate", str(file), "--no-import"], ["run", str(file), "task"]):
        assert main(command) == 2
        told = capsys.readouterr().err
        assert "is outside the manifest's" in told
        assert "--allow-root" in told
    assert main(["show", str(file)]) == 0
    with pytest.raises(UsageError, match="is outside"):
        load_team(file)


@pytest.mark.lab
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("root", OUTSIDE)
def test_a_simulation_needs_the_same_leave_and_advice_needs_none(home: Path, root: str, declared: bool) -> None:  # S-04
    file = manifest(home, str(home.parent / "outside") if root == "OUT" else root, declared=declared)
    assert main(["lab", "simulate", str(file), "task", "--runs", "1"]) == 2
    assert main(["lab", "advise", str(file), "task"]) == 0


@pytest.mark.parametrize("root", ["inside", ".", "back", "./inside/..", "~", "~/x", "not-yet/there"])
def test_a_folder_inside_needs_no_leave(home: Path, root: str) -> None:  # S-04
    assert main(["validate", str(manifest(home, root))]) == 0


def test_a_variable_is_looked_at_when_it_has_a_value(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # S-04
    file = manifest(home, "${PLACE}")
    assert main(["validate", str(file)]) == 0
    monkeypatch.setenv("PLACE", str(home.parent / "outside"))
    with pytest.raises(UsageError, match="is outside"):
        load_team(file)
    monkeypatch.setenv("PLACE", str(home / "inside"))
    assert load_team(file)


def test_what_is_allowed_is_used(home: Path, capsys: pytest.CaptureFixture[str]) -> None:  # S-04
    outside = home.parent / "outside"
    file = manifest(home, "link")
    assert main(["validate", str(file), "--allow-root", str(outside)]) == 0
    assert main(["run", str(file), "task", "--allow-root", "/nowhere", "--allow-root", str(outside), "-q"]) == 0
    assert (outside / "note.txt").read_text() == "hello"
    assert main(["run", str(file), "task", "--allow-root", str(outside / "deeper")]) == 2
    assert "is outside" in capsys.readouterr().err


@pytest.mark.lab
def test_a_simulation_uses_what_is_allowed(home: Path) -> None:  # S-04
    outside, file = home.parent / "outside", manifest(home, "link")
    assert main(["lab", "simulate", str(file), "task", "--runs", "1", "--allow-root", str(outside)]) == 0


def test_folders_of_files_that_the_user_names_are_allowed(home: Path) -> None:  # S-04
    other = home.parent / "other"
    (other / "data").mkdir(parents=True)
    (other / "script.yaml").write_text(SCRIPT)
    (other / "agents.yaml").write_text("agents: {b: {model: scripted:script.yaml, tools: [{files: {folder: data}}]}}\n")
    file = home / "main.yaml"
    file.write_text("teams: {t: {members: [b]}}\n")
    assert main(["validate", str(file), "--with", str(other / "agents.yaml")]) == 0


async def test_what_was_allowed_is_recorded_and_holds_on_a_resume(home: Path) -> None:  # S-04
    outside = home.parent / "outside"
    source = source_of(read_manifest([manifest(home, "link")]), allow_roots=[outside])
    assert source.roots == (str(outside.resolve()),)
    again = Source.model_validate(source.to_json())
    assert team_from_source(again, recorded=True)
    (home / "link").unlink()
    (home / "link").symlink_to("/")
    with pytest.raises(UsageError, match="is outside"):  # another folder than the one that was allowed
        team_from_source(again, recorded=True)
    assert team_from_source(source_with_roots(again, ["/"]), recorded=True)


async def test_a_run_of_an_earlier_version_still_resumes(home: Path) -> None:  # S-04
    source = source_of(read_manifest([manifest(home, "link")]), allow_roots=[home.parent])
    data = source.to_json()
    del data["roots"]
    old = Source.model_validate(data)
    assert old.roots is None
    async with Engine(MemoryJournal()) as engine:
        assert (await engine.run(team_from_source(old, recorded=True), "task")).output == "done"


def test_resume_and_fork_take_the_option(home: Path, capsys: pytest.CaptureFixture[str]) -> None:  # S-04
    outside = home.parent / "outside"
    file = manifest(home, "link")
    assert main(["run", str(file), "task", "--run-id", "r", "--allow-root", str(outside), "-q"]) == 0
    assert main(["runs", "fork", "r", "--run-id", "f", "-q"]) == 0
    (home / "link").unlink()
    (home / "link").symlink_to(home.parent)
    assert main(["runs", "fork", "r", "--run-id", "g", "-q"]) == 2
    assert "is outside" in capsys.readouterr().err
    assert main(["runs", "fork", "r", "--run-id", "g", "-q", "--allow-root", str(home.parent)]) == 0
    assert main(["runs", "resume", "r", "--allow-root", str(home.parent)]) == 1
    assert "has ended" in capsys.readouterr().err


def test_folders_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    assert allowed_roots(tmp_path, [tmp_path / "a.yaml"], ["/x", tmp_path / "y"]) == ("/x", str(tmp_path / "y"))
    with pytest.raises(UsageError, match="can't be used"):
        checked_root("a\0b", tmp_path, (), "a")
