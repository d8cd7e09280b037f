"""The team's branch: which changes were applied to it, in recorded order. Pure: it reads and writes no file.

The record says where the branch is; the repository follows it. A fork leaves out the changes of asks that it makes
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from teamwright.errors import UsageError
from teamwright.values.events.agent import WorkspacePatched
from teamwright.values.key import in_scope

if TYPE_CHECKING:
    from teamwright.history.record.run_record import RunRecord

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
