"""Results as text."""

from __future__ import annotations

from teamwright.cli.text.results import failure_text, next_steps, status_text
from teamwright.values.results import RunResult
from teamwright.values.turns.turn import Failure


def test_nothing_is_said_twice_of_how_a_run_ended() -> None:
    assert status_text(RunResult(run_id="r", status="cancelled", stop_reason="cancelled")) == "cancelled"
    assert status_text(RunResult(run_id="r", status="failed", stop_reason="error")) == "failed (error)"
    assert failure_text(Failure("t", "cancelled", "cancelled")) == "cancelled"
    assert failure_text(Failure("t", "cancelled", "Too slow.")) == "cancelled: Too slow."


def test_a_budget_stop_names_the_limits_that_a_fork_replaces() -> None:  # Z-10
    ended = RunResult(run_id="r", status="degraded", stop_reason="budget")
    (step,) = next_steps(ended, {})
    assert "whichever ran out; limits of members and steps still apply" in step
