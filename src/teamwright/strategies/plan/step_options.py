"""Options and checks that all strategies with a plan share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from pydantic import Field

from teamwright.errors import nearest
from teamwright.strategies.expressions.conditions_and_templates import Condition, Template
from teamwright.strategies.parts import FailurePolicy
from teamwright.strategies.plan.graph import MOST_SUGGESTIONS
from teamwright.strategies.plan.schedule.planner import plan_faults
from teamwright.strategies.plan.step_evaluation import evaluation_problems
from teamwright.strategies.plan.step_runner import STEP_VARIABLES
from teamwright.strategies.protocol import ExpectedAsks, Issue, Settings, Strategy
from teamwright.values.specs.plan import Step
from teamwright.values.text.display import name_text

STEPS = "steps"
MOST_SHOWN = 10
"""How many needs of a step an error message lists."""
BY_STEP = ("outputs", "data", "failed")
"""The variables that are indexed by the id of a step."""


class StepOptions(FailurePolicy):
    """The steps of a plan, and what happens when one fails."""

    steps: tuple[Step, ...] = Field(min_length=1, description="the steps, in any order")


class ShapeOptions(StepOptions):
    """The steps of a plan that runs in a chosen topology."""

    reason: str = Field(default="", description="why this topology was chosen, for the record")


def turn_per_step(strategy: Strategy, settings: Settings, *others: str) -> ExpectedAsks:
    """Return one ask for each step, with its expected tokens, and those with other keys."""
    options = settings.read(cast("type[StepOptions]", strategy.options))
    steps = {step.id: step.execution_tokens + step.coordination_tokens for step in options.steps}
    return steps | dict.fromkeys(others, 0)


def closing_step(steps: Sequence[Step], answer: str | None) -> str | None:
    """Return the step that gives the answer: the one that is declared, or else the only one that no other needs."""
    needed = {need for step in steps for need in step.needs}
    ends = [step.id for step in steps if step.id not in needed]
    closer = answer or (ends[0] if len(ends) == 1 else None)
    return closer if len(steps) > 1 and closer in ends else None


def owned_keys(strategy: Strategy, settings: Settings) -> list[str]:
    """Return the keys that the steps of a team own; empty if its strategy has no plan."""
    model = strategy.options
    if model is None or STEPS not in model.model_fields:
        return []
    steps: Sequence[object] = getattr(settings.read(model), STEPS)
    return [key for step in steps if isinstance(step, Step) for key in step.owns]


def plan_flaws(steps: Sequence[Step]) -> Iterator[Issue]:
    """Yield the faults of the plan, each with its path in the options."""
    for one in plan_faults(steps):
        yield Issue(one.text, (STEPS, one.step, "id") if one.need is None else (STEPS, one.step, "needs", one.need))
    for index, step in enumerate(steps):
        for text in evaluation_problems(step):
            yield Issue(text, (STEPS, index, "evaluate"))


def template_flaws(steps: Sequence[Step]) -> Iterator[Issue]:
    """Yield invalid conditions and tasks, and those that read steps whose output they never see."""
    ids = {step.id for step in steps}
    suggestions = 0
    for index, step in enumerate(steps):
        needs = frozenset(step.needs)
        texts: list[tuple[str, Condition | Template]] = []
        if step.when is not None:
            texts.append(("when", Condition(step.when)))
        if step.task is not None:
            texts.append(("task", Template(step.task)))
        for field, text in texts:
            if problem := text.problem(STEP_VARIABLES):
                yield Issue(problem, (STEPS, index, field))
                continue
            for key in dict.fromkeys(key for _, key in text.keys(BY_STEP)):
                if key in needs:
                    continue
                suggestions += key not in ids
                known = step.needs if suggestions <= MOST_SUGGESTIONS else ()
                yield Issue(_unseen(step, key, known, is_step=key in ids), (STEPS, index, field))


def _unseen(step: Step, key: str, known: Sequence[str], *, is_step: bool) -> str:
    """Return why a step can't read a key: it sees only the outputs of the steps it needs."""
    if is_step:
        hint = "it has no output yet" if key == step.id else "add it"
        if key != step.id and len(step.needs) < MOST_SHOWN:
            hint = f"add it: needs: [{', '.join((*step.needs, key))}]"
        return f"the step {name_text(step.id)} asks about {name_text(key)}, which is not among its needs; {hint}"
    hint = f"; {nearest(key, known).rstrip('.')}" if known else ""
    return f"the step {name_text(step.id)} asks about {name_text(key)}, which is no step that it needs{hint}"
