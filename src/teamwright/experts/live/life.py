"""The life of a team: which state may follow which. Pure."""

from __future__ import annotations

from teamwright.values.events.team import LifeState

NEXT: dict[LifeState, tuple[LifeState, ...]] = {
    "forming": ("planning", "completed"),
    "planning": ("executing", "completed"),
    "executing": ("executing", "synthesizing", "completed"),
    "synthesizing": ("executing", "completed"),
    "completed": ("dissolved",),
    "dissolved": (),
}
"""The states that may follow each. A team that fails or is short of budget is completed from wherever it is."""


class TeamLifeCycle:
    """The state of one team."""

    def __init__(self) -> None:
        self.state: LifeState = "forming"

    def enter(self, state: LifeState) -> None:
        """Enter a state; raises `ValueError` if it can't follow the present one, which is a mistake of the caller."""
        if state not in NEXT[self.state]:
            raise ValueError(f"a team that is {self.state} can't become {state}")
        self.state = state
