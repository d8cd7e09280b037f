"""The risk of a team decides how its steps are evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from teamwright.errors import ManifestError, UsageError
from teamwright.experts.presets import Expert
from teamwright.strategies.plan import bound_plan
from teamwright.strategies.plan.options import PlanOptions
from teamwright.teams.team import Team
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.plan import Step
from tests.kit.members import FakeMembers

QUESTION = {"id": "good", "judge": "Is it good?"}
CHECK = {"id": "long", "length": {"min": 3}}
ExpertOptions = Expert.options


def evaluation_of(step: Step, options: PlanOptions) -> Evaluate:
    found = bound_plan.evaluation_of(step, options)
    assert found is not None
    return found


def test_a_step_without_a_declaration_has_that_of_its_team_and_else_must_not_be_blank() -> None:  # K-10
    step = Step(id="a")
    assert [one.id for one in evaluation_of(step, ExpertOptions()).rubric] == ["not-blank"]
    options = ExpertOptions.model_validate({"evaluate": {"criteria": [CHECK]}})
    assert [one.id for one in evaluation_of(step, options).rubric] == ["long"]


def test_the_defaults_are_medium_risk_three_rounds_ten_minutes_and_to_fail_fast() -> None:  # K-11
    options = ExpertOptions()
    declared = evaluation_of(Step(id="a"), options)
    assert (declared.risk, declared.revisions, declared.evaluator) == ("medium", 2, "auto")
    assert (options.timeout, options.on_planner_failure) == (600, "fail_fast")


def test_rounds_of_a_step_are_never_more_than_those_of_its_team() -> None:  # K-11
    options = ExpertOptions.model_validate({"max_feedback_rounds": 2})
    assert evaluation_of(Step(id="a", evaluate=Evaluate(revisions=4)), options).revisions == 1
    assert evaluation_of(Step(id="a", evaluate=Evaluate(revisions=0)), options).revisions == 0
    assert evaluation_of(Step(id="a", evaluate=Evaluate()), options).revisions == 1


@pytest.mark.parametrize(
    ("risk", "counts", "asks"), [("low", True, True), ("medium", False, True), ("high", False, False)]
)
def test_the_risk_decides_whether_a_judge_is_asked_and_what_becomes_of_work_that_does_not_pass(
    risk: str, counts: bool, asks: bool
) -> None:  # K-09, K-10
    options = ExpertOptions.model_validate({"risk": risk, "evaluate": {"criteria": [CHECK, QUESTION], "judge": "j"}})
    declared = evaluation_of(Step(id="a"), options)
    assert (declared.counts_with_warning, declared.asks_judges) == (counts, asks)


def test_a_step_may_have_a_risk_of_its_own() -> None:
    step = Step(id="a", evaluate=Evaluate(risk="low"))
    assert evaluation_of(step, ExpertOptions(risk="high")).risk == "low"


def make(**options: Any) -> Team:
    fakes = FakeMembers()
    return Team("t", members=fakes.members("a"), helpers=fakes.members("j"), strategy="expert", options=options)


def test_a_team_of_high_risk_needs_checks_and_is_warned_of_questions() -> None:  # K-10
    with pytest.raises(ManifestError, match="checks alone decide, and there is none"):
        make(risk="high", evaluate={"criteria": [QUESTION], "judge": "j"})
    with pytest.raises(ManifestError, match="the step 'a': with risk 'high' checks alone decide"):
        make(risk="high", steps=[{"id": "a", "evaluate": {"criteria": [QUESTION], "judge": "j"}}])
    (warning,) = make(risk="high", evaluate={"criteria": [CHECK, QUESTION], "judge": "j"}).warnings
    assert "do not count: good" in str(warning)


@pytest.mark.parametrize(
    "options",
    [
        {"max_feedback_rounds": 0},
        {"max_feedback_rounds": 2.5},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"max_parallel": 0},
        {"risk": "none"},
        {"evaluate": {"threshold": 1.01}},
        {"evaluate": {"criteria": [{**CHECK, "threshold": float("nan")}]}},
        {"evaluate": {"risk": "medium", "on_exceeded": "pass"}},
        {"on_failure": ["abort_team"]},
        {"roles": {"no such name!": {}}},
    ],
)
def test_nonsense_is_refused_when_the_team_is_made(options: dict[str, Any]) -> None:  # K-11
    with pytest.raises(UsageError):
        make(**options)


JUDGED = {"criteria": [QUESTION], "judge": "a"}


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("expert", {"evaluate": JUDGED}),
        ("expert", {"evaluate": JUDGED, "roles": {"writer": {"agent": "b"}, "reader": {"agent": "a"}}}),
        ("expert", {"roles": {"writer": {"agent": "a"}}, "steps": [{"id": "x", "role": "writer", "evaluate": JUDGED}]}),
        ("dispatch", {"evaluate": JUDGED, "steps": [{"id": "x"}]}),
        ("dispatch", {"steps": [{"id": "x", "evaluate": JUDGED}]}),
        ("react", {"lead": "a", "evaluate": JUDGED}),
        ("react", {"lead": "b", "evaluate": JUDGED}),
        ("react", {"lead": "b", "create_roles": True, "roles": {"writer": {"agent": "c"}}, "evaluate": JUDGED}),
    ],
)
def test_a_judge_that_would_judge_its_own_work_is_refused_before_work_starts(
    strategy: str, options: dict[str, Any]
) -> None:  # K-10
    with pytest.raises(ManifestError, match="'a' would judge its own work; name another judge"):
        Team("t", members=FakeMembers().members("a b c"), strategy=strategy, options=options)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("expert", {"evaluate": JUDGED, "roles": {"writer": {"agent": "b"}}}),
        ("dispatch", {"evaluate": JUDGED, "steps": [{"id": "x", "agent": "b"}]}),
        ("react", {"lead": "b", "roles": {"writer": {"agent": "c"}}, "evaluate": JUDGED}),
    ],
)
def test_a_member_judges_the_work_of_others(strategy: str, options: dict[str, Any]) -> None:  # K-10
    assert Team("t", members=FakeMembers().members("a b c"), strategy=strategy, options=options)
