"""Facts about the workspace of a run: versioned values and artifacts."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.events.body import Body
from teamwright.values.models import Record
from teamwright.values.turns.artifacts import Artifact


class WorkspaceWritten(Record, frozen=True):
    """A shared value has a new version, counted from one."""

    kind: ClassVar = "workspace.written"
    name: str
    revision: int
    body: Body
    by: str


class WorkspaceConflicted(Record, frozen=True):
    """A write was rejected, since the value has another revision than it was based on; `by` wrote that revision."""

    kind: ClassVar = "workspace.conflicted"
    name: str
    based_on: int
    revision: int
    body: Body
    by: str


class WorkspaceKept(Record, frozen=True):
    """An artifact was stored."""

    kind: ClassVar = "workspace.kept"
    artifact: Artifact
    by: str
