"""Plans as values: what a step holds, and how files and strategies spell it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from teamwright.errors import InvalidValue
from teamwright.values.limits import Limits
from teamwright.values.specs.plan import Plan, Step


def test_a_plan_is_read_from_tasks_or_steps() -> None:
    data = [{"id": "a"}, {"id": "b", "needs": ["a"], "owns": ["x"], "execution_tokens": 5}]
    assert Plan.model_validate({"tasks": data}) == Plan.model_validate({"steps": data})
    assert Plan.model_validate({"tasks": data}).steps[1] == Step(id="b", needs=("a",), owns=("x",), execution_tokens=5)


def test_estimates_are_never_negative_and_unknown_fields_are_refused() -> None:
    with pytest.raises(InvalidValue, match="at least 0"):
        Step(id="a", coordination_tokens=-1)
    with pytest.raises(ValidationError, match="Extra inputs"):
        Step.model_validate({"id": "a", "owner": "x"})


def test_a_step_says_when_it_is_worked_on_and_what_it_may_spend() -> None:
    data = {"id": "a", "when": "'x' in outputs.b", "limits": {"seconds": 2}, "priority": 3}
    assert Step.model_validate(data) == Step(id="a", when="'x' in outputs.b", limits=Limits(seconds=2), priority=3)
