"""The trees of a run: a folder for each turn that works on files, what the record says is in it, and the team's
branch, the changes that were applied in recorded order.

A folder is only a copy; the record says where the branch is. Before each call a folder holds what is recorded: what a
call did that was not recorded is undone, so a call that is repeated after a crash finds the files as the first attempt
did. A tree with changes that nothing records is never removed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from teamwright.agents.agent import Agent
from teamwright.agents.attachments import Attachment
from teamwright.agents.evaluators import EVALUATOR
from teamwright.agents.sandbox_guard import remove_folder
from teamwright.agents.tools.protocol import WITH_TOOLS, ToolUser
from teamwright.errors import AgentError, NotResumable, ToolError, UsageError
from teamwright.history.recorded_asks import RecordedAsk
from teamwright.journal.location import data_folder
from teamwright.runtime.working_trees.git import GitFailed, TooMuchOutput
from teamwright.runtime.working_trees.repository import (
    KEPT_REFS,
    LARGEST_CHANGE,
    LARGEST_PATCH,
    SCRATCH,
    RunRepository,
    Signature,
)
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import WorkspacePatched
from teamwright.values.run_keys import in_scope
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.text.display import size_text
from teamwright.values.turns.artifacts import PATCH, Artifact, TreeState, patch_in, patch_name, patch_number
from teamwright.values.turns.results import FINAL
from teamwright.values.turns.turn import Reply, Turn

if TYPE_CHECKING:
    from teamwright.history.run_record import RunRecord
    from teamwright.journal.protocol import Journal
    from teamwright.teams.team import Team


AppliedPatch = tuple[int, WorkspacePatched]
"""The number of the event that applied changes, and its fact."""


class TeamBranch:
    """The commits of a run in order, on top of the one that it began at."""

    def __init__(self, base: str, applied: Iterable[AppliedPatch] = ()) -> None:
        self.base = base
        self._applied = list(applied)

    def tip(self, before: int | None = None) -> str:
        """Return the commit that the branch is at, or was at before the event of this number."""
        chain = self.chain(before)
        return chain[-1].commit if chain else self.base

    def chain(self, before: int | None = None) -> list[WorkspacePatched]:
        """Return the changes that make up the branch, from the first to the last."""
        tip, found = self.base, list[WorkspacePatched]()
        for number, fact in self._applied:
            if before is not None and number >= before:
                break
            if fact.parent == tip:
                found.append(fact)
                tip = fact.commit
        return found

    def apply(self, number: int, fact: WorkspacePatched) -> None:
        """Add changes that were applied just now, on top of all others."""
        self._applied.append((number, fact))

    def find(self, work: str, commit: str) -> WorkspacePatched | None:
        """Return the recorded application of the changes of an ask as this commit, if there is one."""
        return next((fact for _, fact in self._applied if fact.work == work and fact.commit == commit), None)

    def leave_out(self, key: str, inherited: int) -> None:
        """Leave out the inherited changes of an ask, and of asks inside it, because a fork makes it again."""

        def stays(number: int, fact: WorkspacePatched) -> bool:
            return number > inherited or not (in_scope(fact.work, key) or fact.merge == key)

        self._applied = [one for one in self._applied if stays(*one)]


def branch_of(record: RunRecord) -> TeamBranch:
    """Return the branch of a recorded run, without changes that a fork has made again."""
    if not record.start.commit:
        raise UsageError(f"Run {record.run_id!r} has no workspace of files, so it has no changes.")
    kept = [
        (number, fact)
        for number, fact in record.workspace.patched
        if number > record.inherited or not (record.is_superseded(fact.work) or record.is_superseded(fact.merge))
    ]
    return TeamBranch(record.start.commit, kept)


TOO_MUCH = (
    f"all changes of a turn may have {size_text(LARGEST_PATCH)} as a diff, and the changed files"
    f" {size_text(LARGEST_CHANGE)}. Files that are made again at any time belong into .gitignore."
)
ReadPatch = Callable[[Artifact], Awaitable[bytes]]
"""Returns the content of recorded changes."""
Mask = Callable[[str], str]
"""Returns a text with the secrets of the run masked."""


class RunTrees:
    """The trees and the branch of one run under one driver."""

    def __init__(
        self,
        repository: RunRepository,
        workspace: TeamWorkspace,
        branch: TeamBranch,
        read_patch: ReadPatch,
        mask: Mask,
        *,
        started_at: int,
        merger: Agent | None = None,
    ) -> None:
        self.repository, self.workspace, self.branch, self.mask = repository, workspace, branch, mask
        self.started_at, self.merger = started_at, merger
        """When the run began: the time of all its commits, so that they don't depend on how often it was resumed."""
        self._read_patch = read_patch
        self._opening = asyncio.Lock()
        self._is_open = False
        self._held: set[str] = set()
        self._trees: dict[str, str] = {}
        """The trees of recorded changes, by hash, which are computed otherwise."""

    async def open(self) -> RunRepository:
        """Return the repository, made from its source and the record where it is missing."""
        async with self._opening:
            if not self._is_open:
                if self.repository.exists:
                    self.repository.clear_locks()
                if not self.repository.exists or not await self.repository.git.has(self.branch.base):
                    await self.repository.create(self.workspace, self.branch.base)
                for fact in self.branch.chain():
                    await self._make_again(fact)
                self._is_open = True
        return self.repository

    async def _make_again(self, fact: WorkspacePatched) -> None:
        """Make a recorded commit again where it is missing."""
        repository = self.repository
        if await repository.git.has(fact.commit):
            return
        state = TreeState.after((fact.patch,))
        assert state is not None
        merged = await repository.merge(fact.parent, state.commit, await self._tree_of(state))
        commit = await repository.commit(merged.tree, (fact.parent,), signature_of(fact))
        if commit != fact.commit:
            raise GitFailed(
                f"the commit {fact.commit[:12]} of {fact.member!r} is gone from {str(repository.folder)!r}, and making"
                f" it again gave {commit[:12]}: this version of Git merges differently"
            )

    async def tree_of(self, state: TreeState) -> str:
        """Return the tree with these changes."""
        await self.open()
        return await self._tree_of(state)

    async def _tree_of(self, state: TreeState) -> str:
        if state.patch is None:
            return await self.repository.tree_of(state.commit)
        if (known := self._trees.get(state.patch.hash)) is None:
            known = await self.repository.tree_with(state.commit, await self._read_patch(state.patch))
            self._trees[state.patch.hash] = known
        return known

    def remember(self, patch: Artifact, tree: str) -> None:
        """Keep the tree of changes that were recorded just now."""
        self._trees[patch.hash] = tree

    def begin(self, member: Agent, turn: Turn, given: TreeState | None, recorded: RecordedAsk | None) -> Turn:
        """Let a turn begin where the branch is now, or was when the turn was recorded, unless it is `given` where."""
        if given is None and not uses_tree(member):
            return turn
        if given is None or not given.commit:
            commit = self.branch.tip(None if recorded is None else recorded.number)
            given = TreeState(commit=commit, patch=None if given is None else given.patch)
        return replace(turn, tree=given)

    def open_turn(self, member: Agent, state: TreeState) -> TurnTree | None:
        """Return the files of a turn, if its member works on files."""
        return TurnTree(self, member, state) if uses_tree(member) else None

    def hold(self, member: str) -> str:
        """Return the name of a folder for a turn: one of the member that no other turn holds."""
        number, name = 1, member
        while name in self._held:
            number += 1
            name = f"{member}.{number}"
        self._held.add(name)
        return name

    def release(self, name: str) -> None:
        """Let other turns have a folder."""
        self._held.discard(name)


def signature_of(fact: WorkspacePatched) -> Signature:
    """Return who a commit of the branch is by."""
    return Signature(fact.member, fact.dated, fact.message)


class TurnTree:
    """The files of one turn: what is recorded of them, and the folder in which its calls work."""

    def __init__(self, trees: RunTrees, member: Agent, state: TreeState) -> None:
        self._trees, self.state = trees, state
        self._is_check = member.kind == EVALUATOR
        """Whether programs only look at the files: what one of them leaves, the next must not find."""
        self._member = f"{member.name}~check" if self._is_check else member.name
        self._lock = asyncio.Lock()
        self._name = ""
        self._tree = ""
        """The tree that the folder holds; empty where that is unknown."""
        self._number = 0 if state.patch is None else patch_number(state.patch)
        self._is_pending = False
        """Whether the changes in the folder are being recorded."""
        self._has_begun = False
        """Whether the folder held what is recorded before: what differs since is of calls that have failed."""

    @asynccontextmanager
    async def work(self) -> AsyncGenerator[Path]:
        """Hold the folder, with its files as they are recorded."""
        await asyncio.sleep(0)  # calls beside this one whose results are recorded are noted first
        async with self._lock:
            is_ahead = self._is_pending and bool(self._tree)
            wanted = self._tree if is_ahead else await self._trees.tree_of(self.state)
            if not self._name:
                self._name = self._trees.hold(self._member)
            repository = self._trees.repository
            if self._tree == wanted:
                folder = repository.trees / self._name
            else:
                folder = await repository.check_out(
                    self._name, wanted, keep=not self._has_begun, scratch=self._is_check
                )
                self._tree, self._has_begun = wanted, True
            try:
                yield folder
            except BaseException:
                self._tree = ""
                raise

    async def changes(self) -> tuple[Attachment, ...]:
        """Return all changes of the turn so far, if the call that holds the folder has changed anything."""
        repository, before = self._trees.repository, self._tree
        self._tree = ""  # until everything here has worked
        try:
            tree = await repository.snapshot(self._name)
            if tree == before:
                self._tree = tree
                return ()
            content = await repository.patch(self.state.commit, tree, LARGEST_PATCH)
        except TooMuchOutput as error:
            raise ToolError(f"The call changed nothing, since it has changed too much: {TOO_MUCH}") from error
        except GitFailed as error:
            raise ToolError(f"The files can't be recorded, so the call changed nothing: {error}") from error
        if self._trees.mask(text := content.decode()) != text:
            raise ToolError("The call changed nothing: a file would hold a secret, which is never recorded.")
        self._tree, self._is_pending = tree, True
        repository.note(self._name, tree)
        self._number += 1
        return (Attachment(content, patch_name(self.state.commit, self._number), PATCH),)

    def note(self, artifacts: Sequence[Artifact]) -> None:
        """Take over the changes in a recorded result, unless later ones are known."""
        patch, now = patch_in(artifacts), self.state.patch
        if patch is None or (now is not None and patch_number(patch) <= patch_number(now)):
            return
        self.state = TreeState(commit=self.state.commit, patch=patch)
        if patch_number(patch) < self._number:  # a later call is being recorded
            return
        if self._is_pending and self._tree:
            self._trees.remember(patch, self._tree)
        self._number, self._is_pending = patch_number(patch), False

    def restore(self, state: TreeState | None = None) -> None:
        """Undo what is not recorded, or go back to an earlier state, because what changed it has failed."""
        self.state, self._tree, self._is_pending = state or self.state, "", False

    def with_changes(self, reply: Reply, turn: Turn) -> Reply:
        """Return the reply with the changes of its turn, unless it only judges."""
        patch = None if turn.purpose == "judge" else self.state.patch
        return (
            reply if patch is None or patch in reply.artifacts else reply.changed(artifacts=(*reply.artifacts, patch))
        )

    def close(self) -> None:
        """Let other turns have the folder."""
        if self._name:
            self._trees.release(self._name)


def uses_tree(agent: Agent) -> bool:
    """Whether an agent works on the files of its team: with a tool, or to evaluate them."""
    if agent.kind == EVALUATOR or agent.uses_tree:
        return True
    return agent.kind in WITH_TOOLS and isinstance(agent, ToolUser) and agent.toolbox.uses_tree


WORKSPACES = "workspaces"


def run_folder(run_id: str) -> Path:
    """The folder of a run's private repository and its members' trees."""
    return data_folder() / WORKSPACES / run_id


async def begin_trees(workspace: TeamWorkspace, run_id: str) -> str:
    """Copy the files of a workspace for a new run, and return the commit that its branch begins at.

    Raises `UsageError` for a workspace that can't be used; nothing of the run has begun then.
    """
    return await RunRepository(run_folder(run_id)).create(workspace)


def trees_of(run_id: str, record: RunRecord, team: Team, read_patch: ReadPatch, mask: Mask) -> RunTrees:
    """Return the trees of a run that is driven now; raises `NotResumable` if its team has no workspace any more."""
    workspace = team.workspace
    if workspace is None:
        raise NotResumable(
            f"Run {run_id!r} works on files, and the team {team.name!r} has no `workspace` now; add it again."
        )
    merger = workspace.agent
    return RunTrees(
        RunRepository(run_folder(run_id)),
        workspace,
        TeamBranch(record.start.commit, record.workspace.patched),
        read_patch,
        mask,
        started_at=int(record.started_at),
        merger=None if merger is None else Members(team.members, team.helpers).named(merger),
    )


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many trees were removed, and the folders of those that were kept."""

    removed: int
    kept: tuple[str, ...]


async def prune_trees(journal: Journal, only: Collection[str] | None = None) -> Pruned:
    """Remove the trees of runs that have ended, or of `only` these; and everything of runs that were deleted."""
    removed, kept = 0, list[str]()
    root = data_folder() / WORKSPACES
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if only is not None and folder.name not in only:
            continue
        found = await journal.find(folder.name)
        if found is not None and found.status not in FINAL:
            continue
        if found is None and await journal.is_driven(folder.name):  # it begins just now
            continue
        repository = RunRepository(folder)
        count, dirty = await _prune(repository)
        removed += count
        kept += dirty
        if found is None and not dirty and not await _has_kept(repository):
            await anyio.to_thread.run_sync(_remove, str(folder))
    return Pruned(removed, tuple(kept))


async def _prune(repository: RunRepository) -> tuple[int, list[str]]:
    removed, dirty = 0, list[str]()
    trees = sorted(one for one in repository.trees.iterdir() if one.is_dir()) if repository.trees.is_dir() else []
    repository.clear_locks()
    for tree in trees:
        if await _is_dirty(repository, tree):
            dirty.append(str(tree))
            continue
        await anyio.to_thread.run_sync(_remove, str(tree))
        repository.forget(tree.name)
        removed += 1
    return removed, dirty


def _remove(folder: str) -> None:
    """Remove a folder, which a member may have made deeper than Python's own function goes."""
    remove = remove_folder if os.scandir in os.supports_fd else shutil.rmtree
    remove(folder)


async def _is_dirty(repository: RunRepository, tree: Path) -> bool:
    """Whether a tree differs from what was last recorded of it; one that can't be read counts as different."""
    if repository.noted(tree.name) == SCRATCH:
        return False
    try:
        return await repository.snapshot(tree.name) != repository.noted(tree.name)
    except AgentError:
        return True


async def _has_kept(repository: RunRepository) -> bool:
    """Whether changes that no record has were kept under references of their own, before a call was made again."""
    return bool(await repository.git.run("for-each-ref", "--count=1", KEPT_REFS)) if repository.exists else False
