"""The states of a step: which can follow which, and the state of a team that follows from its steps."""

from __future__ import annotations

from itertools import product

import pytest

from teamwright.errors import IllegalMove
from teamwright.strategies.plan.steps.step_work import FINAL_STATES, MOVES, STATES, StepMachine, StepState, team_state

LEGAL = {
    ("idle", "planning"),
    ("planning", "generating"), ("planning", "failed"), ("planning", "timeout"), ("planning", "cancelled"),
    ("generating", "evaluating"), ("generating", "failed"), ("generating", "degraded"), ("generating", "timeout"),
    ("generating", "cancelled"),
    ("evaluating", "generating"), ("evaluating", "completed"), ("evaluating", "failed"), ("evaluating", "degraded"),
    ("evaluating", "timeout"), ("evaluating", "cancelled"),
}  # fmt: skip
"""Every move that the requirements allow, written down a second time."""


@pytest.mark.parametrize(("state", "to"), list(product(STATES, STATES)))
def test_of_all_pairs_of_states_exactly_the_allowed_moves_are_possible(state: StepState, to: StepState) -> None:  # K-01
    machine = StepMachine()
    machine.state = state
    if (state, to) in LEGAL:
        machine.move(to)
        assert machine.state == to
        return
    with pytest.raises(IllegalMove, match=f"from '{state}' to '{to}'"):
        machine.move(to)
    assert machine.state == state


def test_final_states_have_no_exits() -> None:  # K-01
    assert {state for state in STATES if not MOVES[state]} == set(FINAL_STATES)


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([], "idle"),
        (["idle", "idle"], "idle"),
        (["planning", "planning"], "planning"),
        (["completed", "planning"], "planning"),
        (["evaluating", "planning"], "evaluating"),
        (["evaluating", "generating", "failed"], "generating"),
        (["completed", "completed"], "completed"),
        (["completed", "cancelled"], "completed"),
        (["completed", "degraded", "cancelled"], "degraded"),
        (["degraded", "failed", "completed"], "failed"),
        (["failed", "timeout", "completed"], "timeout"),
        (["cancelled", "cancelled"], "cancelled"),
    ],
)
def test_the_state_of_a_team_follows_from_its_steps(steps: list[StepState], state: StepState) -> None:  # K-01
    assert team_state(steps) == state


def test_a_team_without_any_result_has_failed() -> None:
    assert team_state(["degraded", "cancelled"], has_result=False) == "failed"
    assert team_state(["timeout"], has_result=False) == "timeout"
