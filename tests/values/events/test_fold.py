"""Folds: every event is applied once, in order."""

from __future__ import annotations

from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.events.run import RunLogged


class Numbers:
    """Collects the numbers of events."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def apply(self, event: Event) -> None:
        self.found.append(event.number)


def test_events_are_applied_in_order_and_the_fold_is_returned() -> None:
    into = Numbers()
    found = fold((Event("r", number, 0.0, "", "", RunLogged(text="x")) for number in (1, 2, 3)), into)
    assert found is into
    assert found.found == [1, 2, 3]


def test_no_events_change_nothing() -> None:
    assert fold([], Numbers()).found == []
