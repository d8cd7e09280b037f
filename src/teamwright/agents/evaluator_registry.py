"""Finds evaluators: by name among entry points of `teamwright.evaluators`, any other by its import path.

The core has none of its own: even the default of a declaration is registered by a wing. Criteria that can't be checked
are found before work starts.
"""

from __future__ import annotations

from functools import cache
from typing import cast

from teamwright.agents.contract.agent import Agent
from teamwright.agents.contract.context import Context
from teamwright.agents.evaluators import EVALUATOR, Evaluator, EvaluatorClass, require_evaluator
from teamwright.agents.functions.imports import can_load_code, load_function
from teamwright.agents.schema_declaration import schema_fault
from teamwright.errors import UnknownName, UsageError
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.turns.turn import Reply, Turn
from teamwright.wings import Registered, entry_points_of

GROUP = "teamwright.evaluators"
OWN_PACKAGE = "teamwright."


class UnloadedEvaluator(Evaluator):
    """A placeholder for an evaluator that was not imported; using it raises `UsageError`."""

    kind = EVALUATOR

    def __init__(self, declaration: Evaluate, judges: tuple[Agent, ...]) -> None:
        self.name, self.declaration, self.judges = declaration.evaluator, declaration, judges

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Raise `UsageError`: the code was never loaded."""
        raise UsageError(f"The evaluator {self.name!r} was not loaded, so it can't be used.")


@cache
def _registered() -> Registered:
    return Registered(entry_points_of(GROUP))


def evaluator_names() -> list[str]:
    """Return the names of all evaluators, sorted."""
    return sorted(_registered().here)


def is_own(name: str) -> bool:
    """Return whether an evaluator is of this distribution, so that using it runs no code of others."""
    point = _registered().here.get(name)
    return point is not None and point.value.startswith(OWN_PACKAGE)


def check_evaluator_name(name: str) -> None:
    """Raise `UnknownName` if there is no such evaluator, `MissingExtra` if a wing would bring it; imports neither."""
    if ":" not in name and name not in _registered().here:
        raise _registered().missing("evaluator", name) or UnknownName("evaluator", name, evaluator_names())


def make_evaluator(declaration: Evaluate, *, judge: Agent | None = None, final_judge: Agent | None = None) -> Evaluator:
    """Create the evaluator of a declaration; a placeholder for one of others if code must not be loaded."""
    name = declaration.evaluator
    check_evaluator_name(name)
    if not can_load_code() and not is_own(name):
        judges = tuple(one for one in (judge, final_judge) if one is not None)
        return cast("Evaluator", UnloadedEvaluator(declaration, judges))
    made = _class_of(name)(declaration, judge=judge, final_judge=final_judge)
    return require_evaluator(f"The evaluator {name!r}", made)


def _class_of(name: str) -> EvaluatorClass:
    if ":" in name:
        return cast("EvaluatorClass", load_function(name, "the evaluator", "module:Class"))
    point = _registered().here[name]
    try:
        return cast("EvaluatorClass", point.load())
    except Exception as error:  # third-party code may raise anything
        raise UsageError(f"The evaluator {name!r} ({point.value}) can't be loaded: {error}") from error


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
