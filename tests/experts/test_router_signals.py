from __future__ import annotations

import pytest

from teamwright.experts.router import Complexity, Signal, estimate_complexity

HARD = """\
Compare two architectures for our billing service, estimate the migration, review the security and GDPR risks, write a
report for stakeholders with alternatives, and plan the rollout. It must be thorough.
- pricing
- data model
"""


@pytest.mark.parametrize(
    "task", ["What is the capital of France?", "Translate 'hello' into French.", "", "Write a haiku about rain."]
)
def test_a_simple_task_is_enough_for_one(task: str) -> None:
    assert estimate_complexity(task).is_enough_for_one


def test_a_task_of_several_fields_and_kinds_of_work_suggests_a_team() -> None:
    found = estimate_complexity(HARD)
    assert found.suggests_team
    assert {signal.name for signal in found.signals} == {
        "kinds of work", "fields", "parts", "words about weighing", "words about demands", "words",
    }  # fmt: skip


def test_a_score_in_the_middle_decides_nothing() -> None:
    found = estimate_complexity("Design and implement a pricing API, and review its security.")
    assert not found.is_enough_for_one
    assert not found.suggests_team


@pytest.mark.parametrize(("score", "team"), [(0.7, False), (0.70001, True), (1.0, True), (0.0, False)])
def test_a_team_is_suggested_strictly_above_the_threshold(score: float, team: bool) -> None:
    assert Complexity(score).suggests_team is team


@pytest.mark.parametrize(("score", "one"), [(0.35, True), (0.36, False)])
def test_up_to_the_lower_threshold_one_is_enough(score: float, one: bool) -> None:
    assert Complexity(score).is_enough_for_one is one


def test_a_score_is_the_sum_of_its_signals_between_0_and_1() -> None:
    for task in (HARD, HARD * 20, "What is it?", "x " * 5000):
        found = estimate_complexity(task)
        total = sum(one.adds for one in found.signals)
        assert found.score == round(min(1.0, max(0.0, total)), 4)


def test_a_complexity_says_what_it_is_made_of() -> None:
    assert str(Complexity(0.26, (Signal("kinds of work", 3, 0.26),))) == "0.26 (kinds of work 3 (+0.26))"
    assert str(Complexity(0.0)) == "0.00"
