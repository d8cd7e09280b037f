"""The tool `shell`: what a model gets of a command, what is recorded, and what is refused before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teamwright.agents.sandbox import CommandOutcome
from teamwright.agents.sandbox_back_ends import Bubblewrap, Sandlock
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.agents.tools.files import Shell, ShellKind, ShellSource, refused_line
from teamwright.agents.tools.protocol import ToolContext
from teamwright.errors import InvalidValue, ManifestError, ToolError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.specs.tools import SandboxSettings, ShellSpec, ShellTool, sandbox_settings
from tests.growth import assert_linear
from tests.kit.coders import branch, calls, git, repository, says
from tests.kit.records import cut_and_resume

__all__ = ["repository"]

NONE = SandboxSettings(backend="none", seconds=30.0)


def shell(folder: Path, settings: SandboxSettings = NONE) -> Shell:
    return Shell(folder, settings, ToolContext("key", "place"))


async def test_a_command_gives_its_exit_code_and_its_output_in_order(tmp_path: Path) -> None:
    result = await shell(tmp_path).run_command("echo one; echo two >&2; touch made; exit 3")
    assert result == {"exit_code": 3, "output": "one\ntwo\n", "sandbox": "none"}
    assert (tmp_path / "made").exists()


async def test_what_the_sandbox_refuses_is_told_in_plain_words(tmp_path: Path) -> None:
    if Bubblewrap().problem(NONE) and Sandlock().problem(NONE):
        pytest.skip("this machine has no sandbox")
    (tmp_path / "inside" / ".git").mkdir(parents=True)
    settings = SandboxSettings(seconds=30.0)
    result: Any = await shell(tmp_path / "inside", settings).run_command("echo out > .git/hook")
    assert result["exit_code"] != 0
    assert result["sandbox"].startswith("A command may write in its folder and in $TMPDIR, but not in .git")
    assert await shell(tmp_path / "inside", settings).run_command("pwd") == {
        "exit_code": 0,
        "output": f"{tmp_path / 'inside'}\n",
    }


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("sh: 1: cannot create /etc/x: Permission denied", "sh: 1: cannot create /etc/x: Permission denied"),
        ("first\n  cat: /srv/key: No such file or directory  \nlast", "cat: /srv/key: No such file or directory"),
        ("ls: cannot access '../other': No such file or directory", ...),
        ("sh: 1: cannot create ../b.py: Directory nonexistent", ...),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/srv/key'", ...),
        ("cat: src/gone.py: No such file or directory", None),
        (": No such file or directory", None),
        ("AssertionError: 1 != 2", None),
    ],
)
def test_the_line_that_says_a_refusal_is_found(output: str, line: Any) -> None:
    failed = CommandOutcome(1, output, "bubblewrap")
    assert refused_line(failed) == (output if line is ... else line)
    assert refused_line(replace(failed, exit_code=0)) is None


@pytest.mark.parametrize("unit", ["x", "/", "x\n", "/x : ", "permission ", ": no such file", "\n\r"])
def test_a_refusal_is_searched_in_time_proportional_to_the_output_at_most(unit: str) -> None:
    # S-01
    assert_linear(refused_line, prepare=lambda size: CommandOutcome(1, unit * size, "bubblewrap"), size=20_000)


async def test_a_command_that_is_ended_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"because it took longer than 0\.3 seconds\. Its output until then: begun"):
        await shell(tmp_path, NONE.model_copy(update={"seconds": 0.3})).run_command("echo begun; sleep 30")
    with pytest.raises(ToolError, match="nothing to run"):
        await shell(tmp_path).run_command(" ")


async def test_a_recorded_command_is_not_run_again(tmp_path: Path) -> None:
    rules = [Rule(tool=ToolRule(name="run_command", args={"command": "echo ran >> log"}), times=1), Rule(reply="done")]
    tool = ShellSpec(shell=ShellTool(folder=str(tmp_path), sandbox="none"))
    team = Team("t", members=[ScriptedAgent("dev", rules, tools=[tool])])
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    kinds = [event.kind for event in await journal.read("r")]
    _, of_the_tool, *_ = [place for place, kind in enumerate(kinds) if kind == "agent.returned"]
    for at in range(of_the_tool + 1, len(kinds)):
        result, _ = await cut_and_resume(team, at, journal)
        assert result.output == "done"
    assert (tmp_path / "log").read_text() == "ran\n"


async def test_a_command_works_in_the_tree_of_its_member_and_reaches_no_other_files(
    repository: Path,
) -> None:
    if Bubblewrap().problem(NONE) and Sandlock().problem(NONE):
        pytest.skip("this machine has no sandbox")
    hostile = (
        f"sed -i 's/A = 1/A = 9/' a.py; echo out > {repository}/b.py; echo out > ../b.py;"
        f" ln -s {repository} link; echo out > link/b.py; rm link;"
        " mkdir -p .git/hooks; echo 'touch out' > .git/hooks/pre-commit"
    )
    rules = [calls("run_command", command=hostile), says("done")]
    sandbox = SandboxSettings(seconds=50.0)
    member = ScriptedAgent("dev", rules, tools=[ShellSpec(shell=ShellTool(sandbox=sandbox))])
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        team = Team("t", members=[member], workspace=TeamWorkspace(git=str(repository)))
        result = await engine.run(team, "go", run_id="r")
        assert result.output == "done", result
        found = await branch(journal)
    assert [one.files for one in found.branch.chain()] == [("a.py",)]
    assert git(repository, "status", "--porcelain") == ""


async def test_a_machine_without_a_sandbox_is_one_error_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bubblewrap, "problem", lambda *_: "no bwrap")
    monkeypatch.setattr(Sandlock, "problem", lambda *_: "no Landlock")
    team = Team("t", members=[ScriptedAgent("dev", [Rule(reply="done")], tools=["shell"])])
    async with Engine() as engine:
        with pytest.raises(ManifestError, match=r"No sandbox of this machine.*sandbox: none"):
            await engine.run(team, "go")
        assert not await engine.journal.runs()


def test_a_folder_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    [problem] = ShellSource(ShellTool(folder=str(tmp_path / "gone"), sandbox="none")).problems()
    assert "there is no folder" in problem


def test_settings_are_checked_and_their_folders_move_with_the_manifest(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="seconds"):
        SandboxSettings(seconds=0)
    assert sandbox_settings("none") == SandboxSettings(backend="none")
    moved = ShellKind().relocate({"folder": "a", "sandbox": {"readable": ["b"], "env": {}}}, lambda one: f"../{one}")
    assert moved == {"folder": "../a", "sandbox": {"readable": ["../b"], "env": {}}}
    spec = ShellSpec(shell=ShellTool(folder="a", sandbox=SandboxSettings(writable=("b",))))
    resolved = ShellKind().resolve(spec, lambda one: tmp_path / one)
    assert isinstance(resolved, ShellSpec)
    assert resolved.shell.folder == str(tmp_path / "a")
    assert sandbox_settings(resolved.shell.sandbox or "auto").writable == (str(tmp_path / "b"),)
