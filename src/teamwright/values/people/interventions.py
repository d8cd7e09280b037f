"""What the inbox of a run contains: answers and commands of people, and claims of calls on actions."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.models import Record
from teamwright.values.people.questions import Answer


class Answered(Record, frozen=True, tag_field="kind", tag="answer"):
    """An answer to the question with this key."""

    kind: ClassVar = "answer"
    key: str
    answer: Answer


class Cancel(Record, frozen=True, tag_field="kind", tag="cancel"):
    """Cancel the run; it can't be resumed."""

    kind: ClassVar = "cancel"
    reason: str = ""
    by: str = ""


class Pause(Record, frozen=True, tag_field="kind", tag="pause"):
    """Pause the run after calls in flight have finished."""

    kind: ClassVar = "pause"
    by: str = ""


class Mark(Record, frozen=True, tag_field="kind", tag="checkpoint"):
    """Name the current point of the run as a checkpoint."""

    kind: ClassVar = "checkpoint"
    name: str
    by: str = ""


class Undo(Record, frozen=True, tag_field="kind", tag="undo"):
    """Withdraw a finished turn from its conversation: the next turn continues from the one before."""

    kind: ClassVar = "undo"
    version: int
    """The schema version that added this kind: an older program says that it is too old to read it."""
    by: str = ""
    inherited: str = ""
    """The run of an earlier conversation that is withdrawn from a fork of it, in the inbox of a turn of the fork."""


UNDO_VERSION = 2
INHERITED_UNDO_VERSION = 3
"""The schema version that added `Undo.inherited`."""


class ActionClaim(Record, frozen=True, tag_field="kind", tag="claim"):
    """The claim of a call on an action that is not made twice, in the inbox of the root run; no person sends it.

    `run_id` and `key` are the call. The first claim of an action holds. A claim `after` the id of another replaces it:
    the first to do so holds, in turn.
    """

    kind: ClassVar = "claim"
    action: str
    run_id: str
    key: str
    version: int
    """The schema version that added this kind."""
    after: int = 0


CLAIM_VERSION = 2

Intervention = Answered | Cancel | Pause | Mark | Undo | ActionClaim
