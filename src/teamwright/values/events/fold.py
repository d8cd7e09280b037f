"""Folds: values computed from the events of a run in order, the same live and afterwards.

A fold does no I/O and reads no clock, so the same events always give the same value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from teamwright.values.events.event import Event


class Fold(Protocol):
    """A value that events change one by one."""

    def apply(self, event: Event) -> None:
        """Apply the next event of the run."""
        ...


AnyFold = TypeVar("AnyFold", bound=Fold)


def fold(events: Iterable[Event], into: AnyFold) -> AnyFold:
    """Apply events in order, and return what they were applied to."""
    for event in events:
        into.apply(event)
    return into
