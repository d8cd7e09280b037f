"""A verdict as one line tells everything that a reader has to know about the review."""

from __future__ import annotations

import pytest

from teamwright.history.event_wording import evaluation_text, is_plain_pass, mark_of
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.turns.turn import CriterionResult, EvaluationVerdict, JudgeRecord

GOOD = CriterionResult(id="cites", passed=True, score=1.0)


def bad(name: str, reason: str = "too vague") -> CriterionResult:
    return CriterionResult(id=name, passed=False, score=0.0, reason=reason)


def result(verdict: EvaluationVerdict, attempt: int = 1) -> TeamEvaluationResult:
    return TeamEvaluationResult(member="writer", attempt=attempt, work="step-1", verdict=verdict)


def text(verdict: EvaluationVerdict, attempt: int = 1) -> str:
    return evaluation_text(result(verdict, attempt))


def test_a_pass_is_short_and_ordinary() -> None:
    verdict = EvaluationVerdict(outcome="pass", criteria=(GOOD,), score=1.0)
    assert text(verdict) == "the work of writer is evaluated: pass, score 1.00"
    assert is_plain_pass(verdict)
    assert mark_of(Event("r", 1, 0.0, "", "", result(verdict))) == "·"


def test_work_that_nobody_reviewed_is_no_pass_and_has_no_score() -> None:
    verdict = EvaluationVerdict(outcome="not_reviewed", score=None)
    assert text(verdict) == "the work of writer is not reviewed"
    assert mark_of(Event("r", 1, 0.0, "", "", result(verdict))) == "·"


def test_what_did_not_pass_is_named_with_its_reason_and_alike_reasons_once() -> None:
    verdict = EvaluationVerdict(outcome="revise", criteria=(GOOD, bad("a"), bad("b"), bad("c", "")), score=0.25)
    assert text(verdict, 2) == (
        "the work of writer is evaluated (attempt 2): revise, score 0.25; a, b: too vague; c: not passed"
    )
    assert mark_of(Event("r", 1, 0.0, "", "", result(verdict))) == "!"


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"missing": ("b",)}, "1 of 2 criteria left out: b"),
        ({"unknown": ("kind", "witty")}, "invented, and not counted: kind, witty"),
        ({"warnings": ("one model",)}, "warning: one model"),
        ({"unknown": tuple(f"x{number}" for number in range(20))}, "x7 and 12 more"),
    ],
    ids=["missing", "unknown", "warning", "many"],
)
def test_what_is_odd_about_a_review_is_said_even_if_the_work_passes(fields: dict[str, object], part: str) -> None:
    verdict = EvaluationVerdict(outcome="pass", criteria=(GOOD, GOOD.changed(id="b")), score=1.0).changed(**fields)
    assert part in text(verdict)
    assert not is_plain_pass(verdict)


def test_the_answers_of_a_judge_that_was_asked_several_times_are_shown_with_their_spread() -> None:
    judge = JudgeRecord(member="critic", model="m", scores=(1.0, 0.2), spread=0.8, unusable=("no JSON",))
    said = text(EvaluationVerdict(outcome="pass", criteria=(GOOD,), score=0.6, judges=(judge,)))
    assert "critic gave 1.00, 0.20: a spread of 0.80" in said
    assert "1 of 3 answers of critic can't be used: no JSON" in said


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("review_exceeded", "is evaluated: review_exceeded, score 0.00"),
        ("auto_pass_with_warning", "is not reviewed, and counts at low risk"),
    ],
)
def test_why_a_review_broke_off_is_said(outcome: str, words: str) -> None:
    verdict = EvaluationVerdict(outcome="pass", feedback="the judge can't be paid").changed(outcome=outcome)
    assert text(verdict) == f"the work of writer {words}; the judge can't be paid"
