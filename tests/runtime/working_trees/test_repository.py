"""The private repository of a run: it copies, runs no code of a repository, and keeps what no record has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from teamwright.errors import UsageError
from teamwright.runtime.working_trees.git import GitFailed, TooMuchOutput
from teamwright.runtime.working_trees.repository import MOST_MARKS, SNAPSHOT, ChangedFile, RunRepository
from teamwright.values.specs.members import TeamWorkspace
from tests.kit.coders import git

HOSTILE_CONFIG = """
[core]
    fsmonitor = {program}
    hooksPath = {hooks}
    sshCommand = {program}
    pager = {program}
[filter "evil"]
    clean = {program}
    smudge = {program}
    process = {program}
    required = true
[diff "evil"]
    command = {program}
    textconv = {program}
[merge "evil"]
    driver = {program}
[uploadpack]
    packObjectsHook = {program}
"""


def write_hostile(folder: Path, evidence: Path) -> None:
    """Let a repository name a program everywhere where Git may run one."""
    program = evidence.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {evidence}\ncat\n")
    program.chmod(0o755)
    hooks = evidence.parent / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "update", "post-merge"):
        (hooks / name).unlink(missing_ok=True)
        (hooks / name).symlink_to(program)
    with (folder / ".git" / "config").open("a") as config:
        config.write(HOSTILE_CONFIG.format(program=program, hooks=hooks))


async def opened(tmp_path: Path, source: Path) -> tuple[RunRepository, str]:
    made = RunRepository(tmp_path / "run")
    return made, await made.create(TeamWorkspace(git=str(source)))


async def changed_in(made: RunRepository, base: str) -> list[ChangedFile]:
    return await made.changes(base, await made.snapshot("m"))


async def test_a_hostile_repository_and_a_hostile_member_run_no_code(tmp_path: Path, repository: Path) -> None:
    evidence = tmp_path / "evidence"
    (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=two")
    write_hostile(repository, evidence)
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    git(folder, "init", "--quiet", "--template=")
    write_hostile(folder, evidence)
    (folder / "a.py").write_text("changed\n")
    evidence.unlink(missing_ok=True)  # our own commands of the test may have left it
    tree = await made.snapshot("m")
    patch = await made.patch(base, tree)
    assert await made.tree_with(base, patch) == tree
    assert (await made.merge(base, base, tree)).tree == tree
    await made.check_out("m", await made.tree_of(base))
    assert (folder / "a.py").read_text() == "A = 1\nB = 2\nC = 3\n"
    assert not evidence.exists()


@pytest.mark.parametrize("where", ["nested", "module"])
async def test_a_repository_within_a_tree_runs_no_code(tmp_path: Path, repository: Path, where: str) -> None:
    """Also not for its status, which Git asks for by itself once the index has the repository."""
    evidence = tmp_path / "evidence"
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git(repository, "commit", "--quiet", "--message=with a submodule")
    made, base = await opened(tmp_path, repository)
    tree = await made.tree_of(base)
    folder = await made.check_out("m", tree)
    inner = folder / where
    inner.mkdir(exist_ok=True)
    git(inner, "init", "--quiet", "--template=")
    (inner / ".gitattributes").write_text("* filter=evil\n")
    (inner / "file").write_text("one\n")
    git(inner, "add", ".")
    git(inner, "commit", "--quiet", "--message=x")
    write_hostile(inner, evidence)
    for content in ("two\n", "three\n"):
        (inner / "file").write_text(content)
        (folder / "a.py").write_text(content)
        changed = await made.changes(base, await made.snapshot("m"))
        assert [one.path for one in changed] == sorted(["a.py", where])
        assert await made.unsafe(changed) == [where]
    await made.check_out("m", await made.tree_of(base), keep=False)
    await made.check_out("m", await made.tree_of(base))
    assert not evidence.exists()


async def test_files_are_the_bytes_of_the_commit_whatever_their_attributes_say(
    tmp_path: Path, repository: Path
) -> None:
    """So a call that changes nothing never changes the ends of lines, and a member can't make its files unreadable."""
    (repository / "a.py").write_bytes(b"$Id$\r\ntwo\r\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=ends of lines")
    (repository / ".gitattributes").write_text("* text=auto eol=crlf ident\n")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "--quiet", "--message=attributes")
    made, base = await opened(tmp_path, repository)
    tree = await made.tree_of(base)
    folder = await made.check_out("m", tree)
    assert (folder / "a.py").read_bytes() == b"$Id$\r\ntwo\r\n"
    (folder / "a.py").touch()
    assert await made.snapshot("m") == tree
    (folder / ".gitattributes").write_text("* working-tree-encoding=UTF-16\n")
    (folder / "b.py").write_text("plain\n")
    assert await made.git.run("show", f"{await made.snapshot('m')}:b.py") == b"plain\n"


async def test_attributes_hide_no_conflict(tmp_path: Path, repository: Path) -> None:
    (repository / ".gitattributes").write_text("* merge=union conflict-marker-size=32\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=attributes")
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    (folder / "b.py").write_text("x = 2\n")
    onto = await made.commit(await made.snapshot("m"), (base,), SNAPSHOT)
    (folder / "b.py").write_text("x = 3\n")
    merged = await made.merge(onto, base, await made.snapshot("m"))
    assert [(one.path, one.lines) for one in merged.conflicts] == [("b.py", ((1, 5),))]


async def test_what_is_no_file_is_no_part_of_a_tree(tmp_path: Path, repository: Path) -> None:
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    (folder / "a.py").unlink()
    os.mkfifo(folder / "a.py")
    (folder / ".GIT").mkdir()
    (folder / ".GIT" / "config").touch()
    (folder / "b.py").unlink()
    (folder / "b.py").mkdir()
    (folder / "b.py" / "inner").touch()
    assert [one.path for one in await changed_in(made, base)] == ["a.py", "b.py", "b.py/inner"]


async def test_a_folder_that_git_can_not_read_is_set_aside_and_one_it_can_not_set_back_is_made_anew(
    tmp_path: Path, repository: Path
) -> None:
    made, base = await opened(tmp_path, repository)
    tree = await made.tree_of(base)
    folder = await made.check_out("m", tree)
    (folder / "half").touch()
    (made.trees / ".m.index").write_bytes(b"no index")
    await made.check_out("m", tree, keep=False)
    assert sorted(one.name for one in folder.iterdir()) == ["a.py", "b.py"]
    (folder / "by hand").touch()
    (made.trees / ".m.index").write_bytes(b"no index")
    await made.check_out("m", tree)
    assert sorted(one.name for one in folder.iterdir()) == ["a.py", "b.py"]
    [aside] = made.trees.glob("m.kept-*")
    assert (aside / "by hand").exists()


async def test_the_copy_has_the_files_of_the_commit_and_not_its_history(tmp_path: Path, repository: Path) -> None:
    (repository / "b.py").write_text("x = 2\n")
    git(repository, "commit", "--quiet", "--all", "--message=two")
    (repository / "b.py").write_text("not committed\n")
    made, base = await opened(tmp_path, repository)
    assert base == git(repository, "rev-parse", "HEAD").strip()
    folder = await made.check_out("m", await made.tree_of(base))
    assert (folder / "b.py").read_text() == "x = 2\n"
    assert (await made.git.run("rev-list", base)).decode().split() == [base]


@pytest.mark.parametrize(
    "content", [b"plain\n", b"\xe4\xf6\n", b"\0\1\2", b"no end of line", b"a\r\nb\r\n", b"", b"<<<<<<< x\n"]
)
async def test_a_patch_makes_the_same_tree_again_whatever_is_in_it(
    tmp_path: Path, repository: Path, content: bytes
) -> None:
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    (folder / "a.py").unlink()
    (folder / "inner").mkdir()
    (folder / "inner" / "ä b").write_bytes(content)
    (folder / "inner" / "run").write_bytes(content)
    (folder / "inner" / "run").chmod(0o755)
    (folder / "inner" / "link").symlink_to("run")
    tree = await made.snapshot("m")
    patch = await made.patch(base, tree)
    assert await made.tree_with(base, patch) == tree
    patch.decode()


async def test_a_file_in_another_encoding_leaves_the_changes_of_others_readable(
    tmp_path: Path, repository: Path
) -> None:
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    (folder / "a.py").write_text("changed\ndiff --git a/x b/x\n")
    (folder / "latin").write_bytes(b"\xe4\n")
    (folder / os.fsdecode(b"\xe4")).write_text("text\n")
    (folder / "b.py").unlink()
    (folder / "b.py").symlink_to("a.py")
    (folder / "z").write_text("ü\n")
    tree = await made.snapshot("m")
    patch = await made.patch(base, tree)
    assert await made.tree_with(base, patch) == tree
    text = patch.decode()
    assert "\n+changed\n" in text
    assert "\n+ü\n" in text
    assert text.count("GIT binary patch") == 2
    (folder / "link").symlink_to(os.fsdecode(b"\xe4"))
    with pytest.raises(GitFailed, match="a link leads to a name that is no text"):
        await made.patch(base, await made.snapshot("m"))


async def test_links_that_lead_out_and_repositories_within_are_unsafe(tmp_path: Path, repository: Path) -> None:
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    (folder / "inside").symlink_to("a.py")
    (folder / "up").symlink_to("../m.index")
    (folder / "far").symlink_to("/etc/passwd")
    (folder / "git").symlink_to(".git/config")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "fine").symlink_to("../../a.py")
    (folder / "deep" / "er" / "root").symlink_to("../..")  # from which dots lead out, though not by their number
    (folder / "chain").symlink_to("deep/er/root/..")
    (folder / "nested").mkdir()
    git(folder / "nested", "init", "--quiet", "--template=")
    git(folder / "nested", "commit", "--quiet", "--allow-empty", "--message=x")
    assert await made.unsafe(await changed_in(made, base)) == ["chain", "far", "git", "nested", "up"]


async def test_changes_that_no_one_recorded_are_kept_before_a_folder_is_set_back(
    tmp_path: Path, repository: Path
) -> None:
    made, base = await opened(tmp_path, repository)
    tree = await made.tree_of(base)
    folder = await made.check_out("m", tree)
    (folder / "a.py").write_text("by hand\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_text("cache")
    await made.check_out("m", tree)
    assert (folder / "a.py").read_text() == "A = 1\nB = 2\nC = 3\n"
    (kept,) = (await made.git.run("for-each-ref", "--format=%(refname)", "refs/teamwright/kept")).decode().split()
    assert await made.git.run("show", f"{kept}:a.py") == b"by hand\n"
    assert (folder / "__pycache__").exists(), "caches stay, and are no changes"


async def test_what_a_failed_call_left_is_discarded_with_repositories_within(tmp_path: Path, repository: Path) -> None:
    made, base = await opened(tmp_path, repository)
    tree = await made.tree_of(base)
    folder = await made.check_out("m", tree)
    (folder / "a.py").unlink()
    (folder / "b.py").write_text("half\n")
    (folder / "nested" / "deep").mkdir(parents=True)
    git(folder / "nested", "init", "--quiet", "--template=")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_text("cache")
    await made.check_out("m", tree, keep=False)
    assert sorted(one.name for one in folder.iterdir()) == ["__pycache__", "a.py", "b.py"]
    assert await made.snapshot("m") == tree
    assert await made.git.run("for-each-ref", "refs/teamwright/kept") == b""


async def test_more_than_git_could_read_soon_is_refused_at_once_and_set_aside(tmp_path: Path, repository: Path) -> None:
    made, base = await opened(tmp_path, repository)
    tree = await made.tree_of(base)
    folder = await made.check_out("m", tree)
    with (folder / "endless").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooMuchOutput, match=r"1099\.5 GB of files have changed, of at most 268\.4 MB"):
        await made.snapshot("m")
    await made.check_out("m", tree)
    assert await made.snapshot("m") == tree
    [aside] = made.trees.glob("m.kept-*")
    assert (aside / "endless").stat().st_size == 1 << 40
    with pytest.raises(TooMuchOutput):
        await made.snapshot(aside.name)


async def test_a_diff_is_read_up_to_its_bound(tmp_path: Path, repository: Path) -> None:
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    (folder / "noise").write_bytes(os.urandom(100_000))
    tree = await made.snapshot("m")
    with pytest.raises(TooMuchOutput, match=r"printed more than 50\.0 kB"):
        await made.patch(base, tree, most=50_000)
    assert await made.tree_with(base, await made.patch(base, tree, most=500_000)) == tree


async def test_marked_conflicts_are_found_whatever_the_names_attributes_and_contents(
    tmp_path: Path, repository: Path
) -> None:
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    marks = b"<<<<<<< x\r\nmine\n=======\n>>>>>>> y\n"
    (folder / ".gitattributes").write_text("* -diff -text\n")
    names = [b"new\nline: ", b"\xe4", b"binary", b"many", b"other"]
    for name, content in zip(names, [marks, b"one\n" + marks, b"\0\n" + marks, marks * 70, marks], strict=True):
        (folder / os.fsdecode(name)).write_bytes(content)
    tree = await made.snapshot("m")
    found = await made.marked(tree, [os.fsdecode(name) for name in names[:4]] + ["a.py"])
    assert [(one.path, one.lines) for one in found[:3]] == [
        ("new\nline: ", ((1, 4),)), (os.fsdecode(b"\xe4"), ((2, 5),)), ("binary", ((2, 5),)),
    ]  # fmt: skip
    assert [(one.path, len(one.lines)) for one in found[3:]] == [("many", MOST_MARKS)]


async def test_a_folder_that_became_a_link_is_made_again_and_its_target_stays(tmp_path: Path, repository: Path) -> None:
    made, base = await opened(tmp_path, repository)
    folder = await made.check_out("m", await made.tree_of(base))
    target = tmp_path / "target"
    target.mkdir()
    (target / "a.py").write_text("mine\n")
    (folder / "a.py").unlink()
    (folder / "a.py").symlink_to(target / "a.py")
    (folder / "sub").symlink_to(target)
    await made.check_out("m", await made.tree_of(base))
    assert not (folder / "a.py").is_symlink()
    assert not os.path.lexists(folder / "sub")
    assert (target / "a.py").read_text() == "mine\n"


async def test_a_plain_folder_is_copied_and_gives_the_same_commit_again(tmp_path: Path) -> None:
    source = tmp_path / "plain"
    source.mkdir()
    (source / "a.txt").write_text("a\n")
    commits = [await RunRepository(tmp_path / name).create(TeamWorkspace(folder=str(source))) for name in "xy"]
    assert commits[0] == commits[1]
    assert sorted(one.name for one in source.iterdir()) == ["a.txt"]
    (source / "a.txt").write_text("b\n")
    with pytest.raises(UsageError, match="has changed since the run began"):
        await RunRepository(tmp_path / "z").create(TeamWorkspace(folder=str(source)), commits[0])
