"""Finds criteria that can't be checked, before work starts: a function that does not exist, a schema that is none."""

from __future__ import annotations

from teamwright.agents.functions.imports import load_function
from teamwright.agents.schemas.declaration import schema_fault
from teamwright.errors import UsageError
from teamwright.values.specs.evaluation import Criterion, Evaluate


def criteria_problems(declared: Evaluate) -> list[str]:
    """Return what is wrong with the criteria that count; imports the functions that they name, where code is loaded."""
    return [problem for one in declared.rubric if (problem := _problem(one))]


def _problem(criterion: Criterion) -> str:
    if criterion.python is not None:
        try:
            load_function(criterion.python, f"the check {criterion.id!r}")
        except UsageError as error:
            text = str(error).rstrip(".")
            return f"{text[0].lower()}{text[1:]}"
    if criterion.json_schema is not None and (fault := schema_fault(criterion.json_schema)):
        return f"json_schema of the criterion {criterion.id!r} is not a JSON Schema: {fault.text}"
    return ""
