"""The evaluation of steps: the evaluators of a plan, and what is wrong with their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from pydantic import JsonValue

from teamwright.agents.evaluators.criteria import criteria_problems
from teamwright.agents.evaluators.protocol import Evaluator
from teamwright.agents.evaluators.registry import check_evaluator_name, make_evaluator
from teamwright.errors import UsageError
from teamwright.strategies.protocol import Members, Settings
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.plan import Step
from teamwright.values.text.display import name_text

STEPS, EVALUATE = "steps", "evaluate"
"""The options of a plan that hold its steps, and the field of a step that is evaluated."""


def step_evaluators(steps: Iterable[Step], members: Members) -> dict[str, Evaluator]:
    """Return the evaluators of the steps that have one, by step. Their judges are members or helpers."""
    return {step.id: evaluator_among(members, step.evaluate) for step in steps if step.evaluate is not None}


def evaluator_among(members: Members, declared: Evaluate) -> Evaluator:
    """Return the evaluator of a declaration, with members or helpers of the team as its judges."""
    judge = None if declared.judge is None else members.named(declared.judge)
    final = None if declared.final_judge is None else members.named(declared.final_judge)
    return make_evaluator(declared, judge=judge, final_judge=final)


def evaluation_problems(step: Step) -> list[str]:
    """Return what is wrong with the evaluation of a step."""
    if step.evaluate is None:
        return []
    problems = declaration_problems(step.evaluate)
    author = step.agent or step.id
    if author in step.evaluate.judges:
        problems.append(f"{name_text(author)} can't judge its own work")
    return [f"the step {name_text(step.id)}: {text}" for text in problems]


def declaration_problems(declared: Evaluate) -> list[str]:
    """Return what is wrong with the declaration of an evaluation."""
    problems = [*declared.problems(), *(criteria_problems(declared) if declared.evaluator == "rubric" else ())]
    try:
        check_evaluator_name(declared.evaluator)
    except UsageError as error:
        problems.append(f"{str(error)[0].lower()}{str(error)[1:].rstrip('.')}")
    return problems


def _evaluated_steps(settings: Settings) -> Iterator[dict[str, JsonValue]]:
    """Yield the declarations of steps that are evaluated, whichever strategy has them."""
    steps = settings.options.get(STEPS)
    for step in steps if isinstance(steps, list | tuple) else ():
        if isinstance(step, dict) and step.get(EVALUATE) is not None:
            yield step


def has_evaluated_steps(settings: Settings) -> bool:
    """Return whether a step of a team is evaluated, by its own declaration or by one for all of them."""
    return settings.options.get(EVALUATE) is not None or any(True for _ in _evaluated_steps(settings))


def evaluated_steps(settings: Settings) -> list[str]:
    """Return the ids of the steps of a team that are evaluated."""
    return [str(step.get("id", "")) for step in _evaluated_steps(settings)]


def without_evaluation(settings: Settings) -> Settings:
    """Return the settings of a team with steps that are not evaluated."""
    if not has_evaluated_steps(settings):
        return settings
    options = {name: value for name, value in settings.options.items() if name != EVALUATE}
    if STEPS in options:
        steps = cast("list[dict[str, JsonValue]]", options[STEPS])
        options[STEPS] = [{name: value for name, value in step.items() if name != EVALUATE} for step in steps]
    return replace(settings, options=options)
