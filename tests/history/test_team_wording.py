"""The terminal says what became of a plan in one line each."""

from __future__ import annotations

import pytest

from teamwright.history.event_wording import mark_of
from teamwright.history.team_wording import plan_note
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import TimerFired
from teamwright.values.events.team import TeamMerged, TeamPhase, TeamPlanChanged, TeamPlanProposed, TeamPlanStatus


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (TeamPlanChanged(plan_version=1, plan={}, by="l", difference=("+ a", "+ b")), "the plan of l has 2 phases"),
        (TeamPlanChanged(plan_version=2, plan={}, difference=("+ c",)), "a person changes the plan (version 2): + c"),
        (TeamPlanStatus(status="executing", plan_version=1), None),
        (TeamPlanStatus(status="fallback", plan_version=1, reason="'a' failed"), "the plan is fallback: 'a' failed"),
        (TeamPlanProposed(by="x", to="lead", reason="dear"), "x proposes to change the plan; lead refuses: dear"),
        (TeamPlanProposed(by="x", approved=True), "x proposes to change the plan; a person approves"),
        (TeamPhase(phase="a", status="in_progress", members=("x", "y")), "phase a starts: x, y"),
        (TeamPhase(phase="a", status="in_progress", attempt=2, members=("x",)), "phase a starts, attempt 2: x"),
        (TeamPhase(phase="a", status="completed"), "phase a is completed"),
        (TeamPhase(phase="a", status="pending"), "phase a waits until the lead has split it"),
        (TeamPhase(phase="a", status="failed"), "phase a failed"),
        (TeamMerged(phase="a", merge="fusion", entries={"1": "x"}, by="lead"), "phase a: lead merged the answers"),
        (
            TeamMerged(phase="a", merge="best", entries={"1": "x", "2": "y"}, winner="2", by="lead"),
            "phase a: 2 of y wins, lead decided",
        ),
        (
            TeamMerged(phase="a", merge="vote", entries={"1": "x", "2": "y"}, winner="2", votes={"x": "2", "y": ""}),
            "phase a: 2 of y wins by 1 vote",
        ),
        (
            TeamMerged(
                phase="a",
                merge="vote",
                entries={"1": "x", "2": "y"},
                winner="2",
                votes={"x": "2", "y": "1"},
                tied=("1", "2"),
                by="z",
            ),
            "phase a: 2 of y wins by 1 vote, a tie that z broke",
        ),
        (TimerFired(), None),
    ],
)  # fmt: skip
def test_a_line_says_what_became_of_the_plan(fact: Fact, line: str | None) -> None:
    assert plan_note(Event(run_id="r", number=1, time=0, scope="", place="", fact=fact)) == line


def test_what_goes_as_planned_is_not_marked_as_out_of_the_ordinary() -> None:
    def mark(fact: Fact) -> str:
        return mark_of(Event(run_id="r", number=1, time=0, scope="", place="", fact=fact))

    assert mark(TeamPhase(phase="a", status="completed")) == "·"
    assert mark(TeamPlanChanged(plan_version=1, plan={})) == "·"
    assert mark(TeamPhase(phase="a", status="in_progress", attempt=2)) == "!"
    assert mark(TeamPhase(phase="a", status="failed")) == "!"
    assert mark(TeamPlanChanged(plan_version=2, plan={})) == "!"
