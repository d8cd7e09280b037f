"""The declaration of an evaluation, and the verdict."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import msgspec
import pytest

from teamwright.errors import InvalidValue
from teamwright.values.specs.evaluation import NOT_BLANK, Criterion, Evaluate, Length
from teamwright.values.turns.turn import CriterionResult, EvaluationVerdict, JudgeRecord, VerdictOutcome


@pytest.mark.parametrize(
    "fields",
    [
        {"revisions": -1}, {"revisions": True}, {"threshold": 0}, {"threshold": 1.01}, {"threshold": nan}, {"times": 0},
        {"times": 26}, {"merge": "max"}, {"on_failure": "stop"}, {"judges": "x"},
        {"risk": "none"}, {"on_failure": "warn"}, {"on_failure": "warn", "risk": "high"},
        {"on_failure": "pass"}, {"on_failure": "pass", "risk": "medium"},
    ],
)  # fmt: skip
def test_nonsense_is_refused(fields: dict[str, Any]) -> None:  # K-11
    with pytest.raises(InvalidValue, match=next(iter(fields))):
        Evaluate(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"score": 1.01}, "score is 1.01: expects a number that is at most 1.0"),
        ({"score": -0.01}, "at least 0.0"),
        ({"score": nan}, "score is nan"),
        ({"score": inf}, "score is inf"),
        ({"score": True}, "score is True"),
        ({"score": "1"}, "score is '1'"),
        ({"outcome": "passed"}, "outcome is 'passed': it is one of pass, revise, review_exceeded"),
        ({"feedback": None}, "feedback is None"),
    ],
)
def test_a_verdict_that_none_can_give_is_refused(fields: dict[str, Any], said: str) -> None:  # K-11
    given: dict[str, Any] = {"outcome": "pass", **fields}
    with pytest.raises(InvalidValue) as caught:
        EvaluationVerdict(**given)
    assert said in str(caught.value)
    with pytest.raises(InvalidValue):
        EvaluationVerdict(outcome="pass").changed(**fields)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, EvaluationVerdict)


@pytest.mark.parametrize("score", [1.01, nan, inf, -inf, False])
def test_marks_lie_between_0_and_1(score: float) -> None:  # K-11
    with pytest.raises(InvalidValue, match="score"):
        CriterionResult(id="a", passed=True, score=score)
    with pytest.raises(InvalidValue, match="scores"):
        JudgeRecord(member="j", model="m", scores=(0.5, score))


@pytest.mark.parametrize(
    "fields",
    [
        {"weight": 0}, {"weight": inf}, {"weight": nan}, {"threshold": 0}, {"threshold": 1.1}, {"timeout": 0},
        {"contains": ""}, {"command": ()}, {"judge": ""},
    ],
)  # fmt: skip
def test_a_criterion_that_checks_nothing_is_refused(fields: dict[str, Any]) -> None:
    given: dict[str, Any] = {"contains": "x", **fields}
    with pytest.raises(InvalidValue, match=next(iter(fields))):
        Criterion(id="a", **given)


def test_a_criterion_has_exactly_one_kind() -> None:
    with pytest.raises(InvalidValue, match="it has none"):
        Criterion(id="a")
    with pytest.raises(InvalidValue, match="it has length and judge"):
        Criterion(id="a", judge="Good?", length=Length(min=1))


def test_ids_are_names_and_differ() -> None:
    with pytest.raises(InvalidValue, match="id"):
        Criterion(id="a b", contains="x")
    one = Criterion(id="a", contains="x")
    with pytest.raises(InvalidValue, match="several criteria are called 'a'"):
        Evaluate(criteria=(one, one))


def test_a_rubric_without_criteria_asks_for_text() -> None:
    assert [one.id for one in Evaluate().rubric] == [NOT_BLANK]


def test_the_digest_changes_with_criteria_and_threshold() -> None:
    one = Criterion(id="a", contains="x")
    variants = (
        Evaluate(criteria=(one,)),
        Evaluate(criteria=(Criterion(id="a", contains="y"),)),
        Evaluate(criteria=(one,), threshold=0.5),
    )
    assert len({variant.rubric_digest for variant in variants}) == len(variants)
    assert Evaluate(criteria=(one,), revisions=2).rubric_digest == variants[0].rubric_digest


CHECK, QUESTION = Criterion(id="cites", contains="[1]"), Criterion(id="clear", judge="Is it clear?")


@pytest.mark.parametrize(
    ("evaluator", "risk", "asks"),
    [
        ("auto", "low", True), ("auto", "medium", True), ("auto", "high", False),
        ("agent", "low", True), ("agent", "medium", True), ("agent", "high", False),
        ("rubric", "low", False), ("rubric", "medium", False), ("rubric", "high", False),
    ],
)  # fmt: skip
def test_evaluator_and_risk_say_whether_a_judge_is_asked(evaluator: str, risk: Any, asks: bool) -> None:  # K-10
    declared = Evaluate(criteria=(CHECK, QUESTION), judge="critic", evaluator=evaluator, risk=risk)
    assert declared.asks_judges is asks
    assert [one.id for one in declared.rubric] == (["cites", "clear"] if asks else ["cites"])
    assert declared.problems() == []


def test_without_a_judge_none_is_asked() -> None:
    assert not Evaluate(criteria=(CHECK,)).asks_judges


def test_a_criterion_that_does_not_count_at_high_risk_is_a_warning() -> None:
    (warning,) = Evaluate(criteria=(CHECK, QUESTION), judge="critic", risk="high").warnings()
    assert "no judge is asked, so these do not count: clear" in warning
    assert Evaluate(criteria=(CHECK, QUESTION), judge="critic").warnings() == []
    assert Evaluate(criteria=(CHECK,), risk="high").warnings() == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"criteria": (QUESTION,)}, "the criterion 'clear' needs a judge"),
        ({"criteria": (CHECK,), "evaluator": "agent"}, "the evaluator 'agent' needs a judge"),
        ({"criteria": (QUESTION,), "judge": "critic", "risk": "high"}, "with risk 'high' checks alone decide"),
        (
            {"criteria": (QUESTION,), "judge": "critic", "evaluator": "rubric"},
            "with the evaluator 'rubric' checks alone",
        ),
    ],
)
def test_fields_that_do_not_fit_together_are_problems(fields: dict[str, Any], problem: str) -> None:
    (found,) = Evaluate(**fields).problems()
    assert problem in found


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, False), ({"risk": "high"}, False), ({"risk": "low"}, True),
        ({"risk": "low", "on_failure": "fail"}, False), ({"risk": "low", "on_failure": "warn"}, True),
        ({"risk": "low", "on_failure": "pass"}, True),
    ],
)  # fmt: skip
def test_only_at_low_risk_work_that_did_not_pass_counts(fields: dict[str, Any], counts: bool) -> None:  # K-09
    assert Evaluate(**fields).counts_with_warning is counts


def test_an_evaluation_takes_the_risk_of_its_team_unless_it_names_one() -> None:
    assert Evaluate().at_risk("high").risk == "high"
    assert Evaluate(risk="low").at_risk("high").risk == "low"


@pytest.mark.parametrize(
    ("outcome", "passes"),
    [("pass", True), ("auto_pass_with_warning", True), ("revise", False), ("review_exceeded", False)],
)
def test_only_two_outcomes_let_work_count(outcome: VerdictOutcome, passes: bool) -> None:
    assert EvaluationVerdict(outcome=outcome).passes == passes


def test_a_review_that_broke_off_keeps_what_it_found() -> None:
    verdict = EvaluationVerdict(outcome="pass", score=0.7).exceeded("the judge is gone")
    assert (verdict.outcome, verdict.score, verdict.feedback) == ("review_exceeded", 0.7, "the judge is gone")
