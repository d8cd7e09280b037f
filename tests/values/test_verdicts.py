from __future__ import annotations

import pytest

from teamwright.values.verdicts import EvaluationVerdict, VerdictOutcome


@pytest.mark.parametrize(
    ("outcome", "passes"),
    [("pass", True), ("auto_pass_with_warning", True), ("revise", False), ("review_exceeded", False)],
)
def test_only_two_outcomes_let_work_count(outcome: VerdictOutcome, passes: bool) -> None:
    assert EvaluationVerdict(outcome=outcome).passes == passes


def test_a_review_that_broke_off_keeps_what_it_found() -> None:
    verdict = EvaluationVerdict(outcome="pass", score=0.7).exceeded("the judge is gone")
    assert (verdict.outcome, verdict.score, verdict.feedback) == ("review_exceeded", 0.7, "the judge is gone")
