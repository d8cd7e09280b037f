"""Declarations of evaluations refuse nonsense where they are made, in our words."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from teamwright.errors import InvalidValue
from teamwright.values.specs.evaluation import NOT_BLANK, Criterion, Evaluate, Length


@pytest.mark.parametrize(
    "fields",
    [
        {"rounds": 0}, {"rounds": True}, {"threshold": 0}, {"threshold": 1.01}, {"threshold": nan}, {"times": 0},
        {"times": 26}, {"reducer": "max"}, {"on_exceeded": "pass"}, {"judges": "x"},
    ],
)  # fmt: skip
def test_nonsense_is_refused(fields: dict[str, Any]) -> None:  # K-11
    with pytest.raises(InvalidValue, match=next(iter(fields))):
        Evaluate(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"weight": 0}, {"weight": inf}, {"weight": nan}, {"at_least": 0}, {"at_least": 1.1}, {"timeout": 0},
        {"contains": ""}, {"command": ()}, {"non_blank": False}, {"judge": ""},
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


def test_the_digest_changes_with_criteria_threshold_and_version() -> None:
    one = Criterion(id="a", contains="x")
    variants = (
        Evaluate(criteria=(one,)),
        Evaluate(criteria=(Criterion(id="a", contains="y"),)),
        Evaluate(criteria=(one,), threshold=0.5),
        Evaluate(criteria=(one,), version="2"),
    )
    assert len({variant.rubric_digest for variant in variants}) == len(variants)
    assert Evaluate(criteria=(one,), rounds=3).rubric_digest == variants[0].rubric_digest
