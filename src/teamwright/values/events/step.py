"""Facts about the steps of a plan."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.models import Record


class StepSkipped(Record, frozen=True):
    """A step is not worked on: its condition does not hold, all it needs was skipped, or it stands on a failed step.

    `because` are the steps that it needs and for which it is skipped.
    """

    kind: ClassVar = "step.skipped"
    step: str
    reason: Literal["condition", "needs", "failure"]
    because: tuple[str, ...] = ()


class StepHeldUp(Record, frozen=True):
    """A step has to wait for keys that others own, or are to own before it; `by` are the first of those.

    Without `step` it is the scope of this event that waits, and `by` are scopes.
    """

    kind: ClassVar = "step.held_up"
    keys: tuple[str, ...]
    by: tuple[str, ...] = ()
    step: str = ""
