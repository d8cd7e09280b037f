"""What the inbox of a run contains: answers and commands of people, and claims of calls on actions."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.models import JsonValue, Record
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

STEERING_VERSION = 3
"""The schema version that added the kinds below, with which people steer a run."""


class Tell(Record, frozen=True, tag_field="kind", tag="say"):
    """A message to all members of a run, or to the member `to`; each reads it with its next turn."""

    kind: ClassVar = "say"
    text: str
    version: int
    to: str = ""
    by: str = ""


class PauseMember(Record, frozen=True, tag_field="kind", tag="pause_member"):
    """Hold a member before its next turn; the others continue."""

    kind: ClassVar = "pause_member"
    member: str
    version: int
    by: str = ""


class ResumeMember(Record, frozen=True, tag_field="kind", tag="resume_member"):
    """Let a paused member take its turn."""

    kind: ClassVar = "resume_member"
    member: str
    version: int
    by: str = ""


class RaiseBudget(Record, frozen=True, tag_field="kind", tag="raise_budget"):
    """Raise limits of the run and of its outermost team to these; other limits stay as they are."""

    kind: ClassVar = "raise_budget"
    version: int
    tokens: int | None = None
    usd: float | None = None
    calls: int | None = None
    seconds: float | None = None
    by: str = ""


class EditPlan(Record, frozen=True, tag_field="kind", tag="edit_plan"):
    """Replace the plan of the outermost team by this one; what is done stays done."""

    kind: ClassVar = "edit_plan"
    plan: JsonValue
    version: int
    by: str = ""


class AddMember(Record, frozen=True, tag_field="kind", tag="add_member"):
    """Add a member to the outermost team; `spec` is its declaration, as in a manifest."""

    kind: ClassVar = "add_member"
    member: str
    spec: JsonValue
    version: int
    by: str = ""


class RemoveMember(Record, frozen=True, tag_field="kind", tag="remove_member"):
    """Remove a member from the outermost team; what it has done is kept."""

    kind: ClassVar = "remove_member"
    member: str
    version: int
    by: str = ""


TeamChange = EditPlan | AddMember | RemoveMember
"""A change that the strategy of a team carries out."""
Steer = Tell | PauseMember | ResumeMember | RaiseBudget | TeamChange
"""An intervention that is accepted or refused by the driver of the run, and then takes effect at a recorded place."""

Intervention = (
    Answered | Cancel | Pause | Mark | Undo | ActionClaim
    | Tell | PauseMember | ResumeMember | RaiseBudget | EditPlan | AddMember | RemoveMember
)  # fmt: skip
