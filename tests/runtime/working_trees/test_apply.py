"""The end of a branch: shown, taken over without touching the user's files, and cleaned up without losing any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teamwright import Engine, Team
from teamwright.errors import UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.location import data_folder
from teamwright.runtime.working_trees.apply import RecordedBranch
from teamwright.runtime.working_trees.member_trees import prune_trees
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.specs.tools import ShellSpec, ShellTool
from tests.kit.coders import branch, calls, coder, git, says
from tests.kit.terminal import Call


async def a_run(workspace: TeamWorkspace, journal: MemoryJournal) -> None:
    edit = calls("edit_file", path="a.py", old="A = 1", new="A = 10")
    team = Team("team", members=[coder("one", edit, says("done"))], workspace=workspace)
    async with Engine(journal) as engine:
        assert (await engine.run(team, "Fix it", run_id="r")).status == "completed"


async def test_a_branch_is_taken_over_and_the_tree_and_index_of_the_user_stay(repository: Path) -> None:
    journal = MemoryJournal()
    await a_run(TeamWorkspace(git=str(repository)), journal)
    (repository / "a.py").write_text("dirty\n")
    (repository / "b.py").write_text("staged\n")
    git(repository, "add", "b.py")
    before = git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD")
    found = await branch(journal)
    assert "-A = 1\n+A = 10\n" in await found.patch()
    assert "merge it with  git merge teamwright/r" in await found.apply()
    assert "is there already" in await found.apply()
    assert git(repository, "show", "teamwright/r:a.py") == "A = 10\nB = 2\nC = 3\n"
    assert git(repository, "log", "--format=%an: %s", "HEAD..teamwright/r") == "one: one: Fix it\n"
    assert before == (git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD"))


async def test_a_branch_of_others_or_one_that_is_checked_out_is_never_moved(repository: Path) -> None:
    journal = MemoryJournal()
    await a_run(TeamWorkspace(git=str(repository)), journal)
    found, base = await branch(journal), git(repository, "rev-parse", "HEAD").strip()
    git(repository, "checkout", "--quiet", "-b", "mine")
    with pytest.raises(UsageError, match="is checked out"):
        await found.apply("mine")
    git(repository, "commit", "--quiet", "--allow-empty", "--message=more")
    git(repository, "checkout", "--quiet", "-b", "other", base)
    with pytest.raises(UsageError, match="There is another branch 'mine'"):
        await found.apply("mine")
    with pytest.raises(UsageError, match="no name of a branch"):
        await found.apply("a..b")


async def test_in_a_plain_folder_changed_files_are_written_unless_one_was_changed_meanwhile(tmp_path: Path) -> None:
    folder, journal = tmp_path / "plain", MemoryJournal()
    folder.mkdir()
    (folder / "a.py").write_text("A = 1\n")
    (folder / "other.py").write_text("x\n")
    await a_run(TeamWorkspace(folder=str(folder)), journal)
    assert (folder / "a.py").read_text() == "A = 1\n"
    found = await branch(journal)
    (folder / "a.py").write_text("A = 5\n")
    with pytest.raises(UsageError, match=r"have changed since the run began, so nothing was written: a\.py"):
        await found.apply()
    (folder / "a.py").write_text("A = 1\n")
    (folder / "other.py").write_text("mine\n")
    assert "as on the branch" in await found.apply()
    assert ((folder / "a.py").read_text(), (folder / "other.py").read_text()) == ("A = 10\n", "mine\n")


async def turn_files_around(tmp_path: Path) -> tuple[RecordedBranch, Path]:
    """A run in a plain folder, where a folder became a file, a file a folder, and a folder is gone."""
    folder, journal = tmp_path / "plain", MemoryJournal()
    for name in ("d/inner/x", "gone/deep/y", "f", ".gitignore"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("ignored\n")
    shell = ShellSpec(shell=ShellTool(sandbox="none"))
    command = calls("run_command", command="rm -r d f gone; echo d > d; mkdir f; echo z > f/z")
    team = Team(
        "team",
        members=[coder("one", command, says("done"), tools=("files", shell))],
        workspace=TeamWorkspace(folder=str(folder)),
    )
    async with Engine(journal) as engine:
        assert (await engine.run(team, "Fix it", run_id="r")).status == "completed"
    return await branch(journal), folder


async def test_files_and_folders_take_the_place_of_each_other(tmp_path: Path) -> None:
    found, folder = await turn_files_around(tmp_path)
    assert "as on the branch" in await found.apply()
    assert sorted(str(one.relative_to(folder)) for one in folder.rglob("*")) == [".gitignore", "d", "f", "f/z"]
    assert (folder / "d").read_text() == "d\n"
    assert "as on the branch" in await found.apply()


async def test_nothing_is_written_where_something_that_is_ignored_is_in_the_way(tmp_path: Path) -> None:
    found, folder = await turn_files_around(tmp_path)
    (folder / "d" / "inner" / "ignored").touch()
    before = sorted(folder.rglob("*"))
    with pytest.raises(UsageError, match="so nothing was written: d"):
        await found.apply()
    assert sorted(folder.rglob("*")) == before
    (folder / "d" / "inner" / "ignored").unlink()
    (folder / "d" / "inner" / "x").unlink()
    (folder / "d" / "inner" / "x").symlink_to("/")
    with pytest.raises(UsageError, match="so nothing was written: d/inner/x"):
        await found.apply()


async def test_trees_of_ended_runs_are_removed_and_one_with_other_changes_is_kept(repository: Path) -> None:
    journal = MemoryJournal()
    await a_run(TeamWorkspace(git=str(repository)), journal)
    tree = data_folder() / "workspaces" / "r" / "trees" / "one"
    (tree / "a.py").write_text("by hand\n")
    assert (await prune_trees(journal)).kept == (str(tree),)
    (tree / "a.py").write_text("A = 10\nB = 2\nC = 3\n")
    pruned = await prune_trees(journal)
    assert (pruned.removed, pruned.kept, tree.exists()) == (1, (), False)
    assert "+A = 10" in await (await branch(journal)).patch(), "the branch needs no tree"
    await journal.delete(["r"])
    await prune_trees(journal)
    assert not tree.parent.parent.exists()


def test_the_commands_show_take_over_and_clean_up(repository: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text(
        "rules:\n"
        "  - {times: 1, tool: {name: edit_file, args: {path: a.py, old: A = 1, new: A = 10}}}\n"
        "  - {reply: done}\n"
    )
    (tmp_path / "team.yaml").write_text(
        "agents:\n  one: {model: scripted:replies.yaml, tools: [files]}\n"
        "teams:\n  team: {members: [one], workspace: {git: repository}}\n"
    )
    assert call("run", str(tmp_path / "team.yaml"), "Fix it", "--run-id", "r").code == 0
    assert "+A = 10" in call("runs", "diff", "r").out
    assert json.loads(call("runs", "diff", "r", "--json").out)["commits"][0]["member"] == "one"
    assert call("runs", "diff", "r", "none-such").code == 2
    assert call("runs", "apply", "r", "fix").code == 0
    assert git(repository, "show", "fix:a.py").startswith("A = 10")
    assert "1 tree removed" in call("runs", "delete", "--trees").out
