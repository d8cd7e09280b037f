"""The end of a run's branch: its patch, and how the user takes it over into a repository or a folder.

Only `apply` writes there, because the user asks for it: a branch that is new or moves forward, or the changed files of
a plain folder. The tree and the index of a repository stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from teamwright.errors import RunError, UsageError
from teamwright.journal.codec import decode_body
from teamwright.runtime.working_trees.git import Git, check_git
from teamwright.runtime.working_trees.member_trees import RunTrees, TeamBranch, branch_of, run_folder
from teamwright.runtime.working_trees.repository import LINK, ChangedFile, RunRepository, Signature, find_repository
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.text.display import count_text
from teamwright.values.turns.artifacts import Artifact, content_of

if TYPE_CHECKING:
    from teamwright.history.run_record import RunRecord
    from teamwright.journal.protocol import Journal

BRANCH = "teamwright/{run}"
BRANCHES = "refs/heads/"


class RecordedBranch:
    """The branch of a recorded run, whose repository is made again where it is missing."""

    def __init__(self, journal: Journal, record: RunRecord) -> None:
        self.run_id, self._journal = record.run_id, journal
        self.workspace, self.branch = _workspace_of(record), branch_of(record)
        self._trees = RunTrees(
            RunRepository(run_folder(record.run_id)),
            self.workspace,
            self.branch,
            self._read,
            lambda text: text,
            started_at=int(record.started_at),
        )

    async def _read(self, patch: Artifact) -> bytes:
        return content_of(decode_body((await self._journal.bodies([patch.hash]))[patch.hash]))

    async def open(self) -> RunRepository:
        """Return the run's repository, with all commits of the branch."""
        await check_git()
        return await self._trees.open()

    async def patch(self) -> str:
        """Return all changes of the branch as one diff."""
        repository = await self.open()
        tree = await repository.tree_of(self.branch.tip())
        content = await repository.patch(self.branch.base, tree)
        return content.decode().partition("\n\n")[2]

    async def apply(self, name: str = "") -> str:
        """Take the branch over, and return what was done; raises `UsageError` if that would lose something."""
        if not self.branch.chain():
            return "there is nothing to apply: the run changed no file"
        repository = await self.open()
        source = Path(self.workspace.path)
        if self.workspace.git is None:
            if name:
                raise UsageError(f"{str(source)!r} is a plain folder, which has no branches; leave out --branch.")
            return await _apply_to_folder(repository, source, self.branch)
        return await self._apply_to_repository(repository, source, name or BRANCH.format(run=self.run_id))

    async def _apply_to_repository(self, repository: RunRepository, source: Path, name: str) -> str:
        theirs, ref, tip = await find_repository(source), BRANCHES + name, self.branch.tip()
        code, _, _ = await theirs.call("check-ref-format", ref, trusts=source)
        if code != 0:
            raise UsageError(f"{name!r} is no name of a branch.")
        code, output, _ = await theirs.call("rev-parse", "--verify", "--quiet", ref, trusts=source)
        before = output.decode().strip() if code == 0 else ""
        if before == tip:
            return f"the branch {name} is there already, at {tip[:12]}"
        if before and before not in (self.branch.base, *(one.commit for one in self.branch.chain())):
            raise UsageError(f"There is another branch {name!r} in {str(source)!r}; choose a name with  --branch NAME")
        used = await theirs.run("worktree", "list", "--porcelain", trusts=source)
        if f"branch {ref}" in used.decode("utf-8", "replace").splitlines():
            raise UsageError(
                f"The branch {name!r} is checked out in {str(source)!r}; choose a name with  --branch NAME"
            )
        code, _, _ = await theirs.call("cat-file", "-e", f"{self.branch.base}^{{commit}}", trusts=source)
        if code != 0:
            raise UsageError(f"{str(source)!r} no longer has the commit {self.branch.base[:12]} that the run began at.")
        await _copy_objects(repository.git, theirs, tip, self.branch.base, source)
        by = Signature("teamwright", 0, "").environment
        del by["GIT_COMMITTER_DATE"], by["GIT_AUTHOR_DATE"]
        old = before or "0" * len(tip)
        await theirs.run("update-ref", "-m", f"teamwright: run {self.run_id}", ref, tip, old, env=by, trusts=source)
        return f"the branch {name} is at {tip[:12]}; merge it with  git merge {name}"


def _workspace_of(record: RunRecord) -> TeamWorkspace:
    source = record.source()
    team = source.manifest.teams.get(source.team)
    if team is None or team.workspace is None:
        raise UsageError(f"The record of run {record.run_id!r} does not say which files it works on.")
    return team.workspace.moved_to(str(Path(source.base, Path(team.workspace.path).expanduser())))


async def _copy_objects(ours: Git, theirs: Git, tip: str, base: str, source: Path) -> None:
    pack = await ours.run("pack-objects", "--revs", "--stdout", "-q", stdin=f"{tip}\n^{base}\n".encode())
    await theirs.run("index-pack", "--stdin", stdin=pack, trusts=source)


async def _apply_to_folder(repository: RunRepository, source: Path, branch: TeamBranch) -> str:
    """Write the changed files; none where one of them is no longer as it was when the run began."""
    tip = branch.tip()
    changed = await repository.changes(branch.base, await repository.tree_of(tip))
    now = await repository.commit_folder(source)
    others = {one.path for one in await repository.changes(branch.base, await repository.tree_of(now))}
    done = {one.path for one in await repository.changes(now, await repository.tree_of(tip))}
    todo = [one for one in changed if one.path in done]
    in_the_way = await anyio.to_thread.run_sync(_in_the_way, source, todo)
    if taken := sorted({*(one.path for one in todo if one.path in others), *in_the_way}):
        raise UsageError(
            f"These files of {str(source)!r} have changed since the run began, so nothing was written:"
            f" {', '.join(taken)}. Take the changes by hand, from  teamwright runs diff RUN"
        )
    for one in sorted(todo, key=lambda one: bool(one.mode)):  # what goes makes room
        await _write(repository, source, one)
    return f"{count_text(len(changed), 'file')} in {str(source)!r} now as on the branch"


async def _write(repository: RunRepository, source: Path, changed: ChangedFile) -> None:
    content = await repository.git.run("cat-file", "blob", changed.blob) if changed.mode else b""
    await anyio.to_thread.run_sync(_write_file, source, changed, content)


def _in_the_way(source: Path, changed: Sequence[ChangedFile]) -> list[str]:
    """Return the files that can't be written: something else is there, or the way there leads out of the folder."""
    gone = {one.path for one in changed if not one.mode}

    def is_free(path: str) -> bool:
        place = source / path
        if any(one.is_file() and one.relative_to(source).as_posix() not in gone for one in _above(source, place)):
            return False
        if place.is_dir() and not place.is_symlink():
            inside = [Path(folder, name) for folder, _, names in os.walk(place) for name in names]
            return all(one.relative_to(source).as_posix() in gone for one in inside)
        return place.parent.resolve().is_relative_to(source.resolve())

    return [one.path for one in changed if one.mode and not is_free(one.path)]


def _above(source: Path, place: Path) -> list[Path]:
    """Return the folders above a path, from the innermost to the one below the source."""
    return [one for one in place.parents if one != source and one.is_relative_to(source)]


def _write_file(source: Path, changed: ChangedFile, content: bytes) -> None:
    """Put a file in its place; a link on the way is not followed out of the folder."""
    place = source / changed.path
    if not place.parent.resolve().is_relative_to(source.resolve()):
        raise RunError(f"{changed.path!r} leads out of {str(source)!r}.")
    if not changed.mode:
        place.unlink(missing_ok=True)
        with suppress(OSError):  # a folder that holds something stays
            for folder in _above(source, place):
                folder.rmdir()
        return
    for folder, _, _ in os.walk(place, topdown=False):  # folders alone are left there
        Path(folder).rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name[:40]}.teamwright.tmp")
    draft.unlink(missing_ok=True)
    if changed.mode == LINK:
        draft.symlink_to(os.fsdecode(content))
    else:
        draft.write_bytes(content)
        draft.chmod(0o755 if changed.mode == "100755" else 0o644)
    draft.replace(place)
