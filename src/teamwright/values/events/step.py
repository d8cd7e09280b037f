"""Facts about the steps of a plan."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.models import Record


class StepSkipped(Record, frozen=True):
    """A step is skipped: its condition is false, all steps it needs were skipped, or one of them failed.

    `because` are the needed steps that caused it.
    """

    kind: ClassVar = "step.skipped"
    step: str
    reason: Literal["condition", "needs", "failure"]
    because: tuple[str, ...] = ()


class StepHeldUp(Record, frozen=True):
    """A step waits for keys that other steps own or will own before it; `by` are the first of those.

    Without `step`, the scope of this event waits, and `by` are scopes.
    """

    kind: ClassVar = "step.held_up"
    keys: tuple[str, ...]
    by: tuple[str, ...] = ()
    step: str = ""
