"""What all strategies have in common that work through a plan: its steps, and what may be wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from pydantic import Field

from teamwright.planning.planner import plan_faults
from teamwright.strategies.conditions import Condition
from teamwright.strategies.flow import KNOWN
from teamwright.strategies.outlook import Outlook
from teamwright.strategies.parts import FailurePolicy
from teamwright.strategies.protocol import Flaw, Members, Settings, Strategy, options_of
from teamwright.strategies.templates import Template
from teamwright.values.plan import Step

STEPS = "steps"


class StepOptions(FailurePolicy):
    """The steps of a plan, and what a failed one does."""

    steps: tuple[Step, ...] = Field(min_length=1, description="the steps, in any order")


class ShapeOptions(StepOptions):
    """The steps of a plan that is worked through in a shape that somebody has chosen."""

    reason: str = Field(default="", description="why this shape was chosen, for the record")


def turn_per_step(strategy: Strategy, settings: Settings, _members: Members) -> Outlook:
    """The outlook of a strategy whose options are steps: what each is expected to take, talk about it included."""
    options = settings.read(cast("type[StepOptions]", options_of(strategy)))
    return {step.id: step.execution_tokens + step.coordination_tokens for step in options.steps}


def plan_flaws(steps: Sequence[Step]) -> Iterator[Flaw]:
    """What keeps steps from being a plan, each at its place."""
    for one in plan_faults(steps):
        yield Flaw(one.text, (STEPS, one.step, "id") if one.need is None else (STEPS, one.step, "needs", one.need))


def template_flaws(steps: Sequence[Step]) -> Iterator[Flaw]:
    """Conditions and tasks that can't be read."""
    for index, step in enumerate(steps):
        if step.when is not None and (problem := Condition(step.when).problem(KNOWN)):
            yield Flaw(problem, (STEPS, index, "when"))
        if step.task is not None and (problem := Template(step.task).problem(KNOWN)):
            yield Flaw(problem, (STEPS, index, "task"))
