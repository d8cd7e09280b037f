"""Facts about what a run shares: values with versions, and artifacts."""

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
    """A write was refused since the value is at another revision than it was based on; `by` wrote that one."""

    kind: ClassVar = "workspace.conflicted"
    name: str
    based_on: int
    revision: int
    body: Body
    by: str


class WorkspaceKept(Record, frozen=True):
    """Something large was stored."""

    kind: ClassVar = "workspace.kept"
    artifact: Artifact
    by: str
