"""The states of a step, the legal moves between them, and the state of a team, which follows from its steps.

Pure values. A final state has no exits, and an illegal move is an error that names both states.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, get_args

from teamwright.errors import IllegalMove

StepState = Literal[
    "idle", "planning", "generating", "evaluating", "completed", "degraded", "failed", "timeout", "cancelled"
]
FinalState = Literal["completed", "degraded", "failed", "timeout", "cancelled"]

STATES: Final[tuple[StepState, ...]] = get_args(StepState)
FINAL_STATES: Final[tuple[FinalState, ...]] = get_args(FinalState)
STOPPED: Final[frozenset[StepState]] = frozenset(("timeout", "cancelled"))
"""The final states that every working state can move to."""

MOVES: Final[Mapping[StepState, frozenset[StepState]]] = {
    "idle": frozenset(("planning",)),
    "planning": STOPPED.union(("generating", "failed")),
    "generating": STOPPED.union(("evaluating", "degraded", "failed")),
    "evaluating": STOPPED.union(("generating", "completed", "degraded", "failed")),
    **dict.fromkeys(FINAL_STATES, frozenset[StepState]()),
}
"""The states that can follow each state."""


class StepMachine:
    """The state of one step; every move is checked."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: StepState = "idle"

    def move(self, to: StepState) -> None:
        """Move to another state; raises `IllegalMove` if it can't follow this one."""
        if to not in MOVES[self.state]:
            raise IllegalMove(self.state, to)
        self.state = to

    @property
    def is_final(self) -> bool:
        """Whether no state can follow."""
        return not MOVES[self.state]


def team_state(steps: Collection[StepState], *, has_result: bool = True) -> StepState:
    """Return the state of a team from the states of its steps.

    While a step is working, it is the busiest of their states. When all have ended, it is the worst of their endings; a
    team without any result has failed, and one whose steps were all called off was cancelled.
    """
    if not steps:
        return "idle"
    for state in ("generating", "evaluating", "planning"):
        if state in steps:
            return state
    if all(state == "idle" for state in steps):
        return "idle"
    for state in ("timeout", "failed", "degraded", "completed"):
        if state in steps:
            return state if has_result or state == "timeout" else "failed"
    return "cancelled"
