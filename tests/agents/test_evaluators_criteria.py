"""Criteria that can't be checked are found before work starts."""

from __future__ import annotations

import pytest

from teamwright.agents.evaluators import criteria_problems
from teamwright.strategies.plan.steps.step_options import declaration_problems
from teamwright.values.specs.evaluation import Criterion, Evaluate

NO_SCHEMA = Criterion(id="data", output_schema={"$ref": "http://elsewhere/schema"})
NO_FUNCTION = Criterion(id="check", function="os.path:nothing")
NO_MODULE = Criterion(id="check", function="no_such_module:check")


@pytest.mark.parametrize(
    ("criterion", "problem"),
    [
        (NO_SCHEMA, "output_schema of the criterion 'data' is not a JSON Schema"),
        (NO_FUNCTION, "there is no 'nothing' in 'os.path:nothing'"),
        (NO_MODULE, "the module of the check 'check', 'no_such_module:check', can't be imported"),
    ],
)
def test_a_criterion_that_can_not_be_checked_is_named(criterion: Criterion, problem: str) -> None:  # K-10
    good = Criterion(id="good", function="os.path:basename")
    (found,) = criteria_problems(Evaluate(criteria=(good, criterion)))
    assert problem in found
    assert found in declaration_problems(Evaluate(criteria=(criterion,)))
