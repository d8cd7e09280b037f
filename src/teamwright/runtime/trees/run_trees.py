"""The trees of a run: where they are, how they are begun and found again, and how those of ended runs are removed.

A tree with changes that nothing records is never removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from teamwright.agents.sandbox.guard import remove_folder
from teamwright.errors import AgentError, NotResumable
from teamwright.journal.location import data_folder
from teamwright.runtime.trees.branch import TeamBranch
from teamwright.runtime.trees.member_trees import Mask, ReadPatch, RunTrees
from teamwright.runtime.trees.repository import KEPT_REFS, SCRATCH, RunRepository
from teamwright.strategies.protocol import Members
from teamwright.values.turns.results import FINAL

if TYPE_CHECKING:
    from teamwright.history.record.run_record import RunRecord
    from teamwright.journal.protocol import Journal
    from teamwright.teams.team import Team
    from teamwright.values.specs.members import TeamWorkspace

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
