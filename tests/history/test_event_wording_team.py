"""The terminal says what became of a plan in one line each."""

from __future__ import annotations

from typing import get_args

import pytest

from teamwright.history.event_wording import RUNG_TEXTS, mark_of, note_text, plan_note
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import TimerFired
from teamwright.values.events.team import (
    FailureRung,
    TeamMerged,
    TeamPlanChanged,
    TeamPlanProposed,
    TeamPlanStatus,
    TeamStepAssigned,
    TeamStepCompleted,
    TeamStepFailed,
)


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (TeamPlanChanged(plan_version=1, plan={}, by="l", difference=("+ a", "+ b")), "the plan of l has 2 steps"),
        (TeamPlanChanged(plan_version=2, plan={}, difference=("+ c",)), "a person changes the plan (version 2): + c"),
        (TeamPlanStatus(status="executing", plan_version=1), None),
        (
            TeamPlanStatus(status="fallback", plan_version=1, reason="'a' failed"),
            "the plan is left, and one agent finishes the task: 'a' failed",
        ),
        (TeamPlanStatus(status="failed", plan_version=2), "the plan has failed"),
        (TeamPlanProposed(by="x", to="lead", reason="dear"), "x proposes to change the plan; lead refuses: dear"),
        (TeamPlanProposed(by="x", approved=True), "x proposes to change the plan; a person approves"),
        (TeamStepAssigned(step="a", member="x", members=("x", "y")), "step a starts: x, y"),
        (TeamStepAssigned(step="a", member="x", attempt=2), "step a starts, attempt 2: x"),
        (TeamStepAssigned(step="a", member="a"), "step a starts"),
        (TeamStepCompleted(step="a", member="x", state="completed"), "step a is completed"),
        (
            TeamStepCompleted(step="a", member="x", state="completed", nothing_found=True),
            "step a is completed: there is nothing to find",
        ),
        (TeamStepCompleted(step="a", member="x", state="degraded"), "step a ended with a warning"),
        (TeamStepCompleted(step="a", member="x", state="timeout"), "step a ended by timeout"),
        (TeamStepCompleted(step="a", member="x", state="failed"), None),
        (TeamMerged(step="a", merge="fusion", entries={"1": "x"}, by="lead"), "step a: lead merged the answers"),
        (
            TeamMerged(step="a", merge="best", entries={"1": "x", "2": "y"}, winner="2", by="lead"),
            "step a: 2 of y wins, lead decided",
        ),
        (
            TeamMerged(step="a", merge="vote", entries={"1": "x", "2": "y"}, winner="2", votes={"x": "2", "y": ""}),
            "step a: 2 of y wins by 1 vote",
        ),
        (
            TeamMerged(
                step="a",
                merge="vote",
                entries={"1": "x", "2": "y"},
                winner="2",
                votes={"x": "2", "y": "1"},
                tied=("1", "2"),
                by="z",
            ),
            "step a: 2 of y wins by 1 vote, a tie that z broke",
        ),
        (TimerFired(), None),
    ],
)  # fmt: skip
def test_a_line_says_what_became_of_the_plan(fact: Fact, line: str | None) -> None:
    assert plan_note(Event(run_id="r", number=1, time=0, scope="", place="", fact=fact)) == line


def test_what_goes_as_planned_is_not_marked_as_out_of_the_ordinary() -> None:
    def mark(fact: Fact) -> str:
        return mark_of(Event(run_id="r", number=1, time=0, scope="", place="", fact=fact))

    assert mark(TeamStepAssigned(step="a", member="x")) == "·"
    assert mark(TeamStepCompleted(step="a", member="x", state="completed")) == "·"
    assert mark(TeamPlanChanged(plan_version=1, plan={})) == "·"
    assert mark(TeamStepAssigned(step="a", member="x", attempt=2)) == "!"
    assert mark(TeamStepCompleted(step="a", member="x", state="degraded")) == "!"
    assert mark(TeamPlanChanged(plan_version=2, plan={})) == "!"


@pytest.mark.parametrize("rung", get_args(FailureRung))
def test_each_rung_of_a_failure_has_words(rung: FailureRung) -> None:
    fact = TeamStepFailed(step="a", member="x", attempt=1, error="server", rung=rung)
    text = note_text(Event(run_id="r", number=1, time=0, scope="", place="", fact=fact))
    assert text == f"x failed at step a (server): {RUNG_TEXTS[rung]}"
