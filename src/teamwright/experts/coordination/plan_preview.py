"""Shows a plan to a person before work starts, who approves, edits or rejects it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic import JsonValue, ValidationError
from pydantic_core import from_json, to_json

from teamwright.agents.approval import ask_for_decision
from teamwright.agents.contract.agent import Context
from teamwright.errors import AgentError
from teamwright.experts.coordination.planner import MadePlan
from teamwright.strategies.plan.planner import plan_faults
from teamwright.strategies.plan.step_options import template_flaws
from teamwright.values.people import Answer, Question, approval_question
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.validation_messages import reasons_of
from teamwright.values.turns.turn import Failure

QUESTION = "May the team work by this plan?"
QUESTION_AGAIN = "A step failed. May the team change its plan so?"
KEY = "confirm-plan"

StepProblems = Callable[[Sequence[Step]], list[str]]
"""Returns why steps can't be bound to members."""


async def confirm_plan(
    plan: MadePlan,
    problems: StepProblems,
    ctx: Context,
    *,
    key: str = KEY,
    difference: Sequence[str] = (),
    earlier: Sequence[Step] = (),
) -> MadePlan | Failure:
    """Return the plan as a person has approved or edited it; a failure if it was rejected.

    With `difference` it is another plan for a team that works, and the person decides on that alone; `earlier` steps
    have ended.
    """
    draft = to_json({"steps": [one.model_dump(mode="json", exclude_defaults=True) for one in plan.steps]}, indent=2)
    text = "\n".join((QUESTION_AGAIN, *difference)) if difference else QUESTION

    def read_edit(data: JsonValue) -> tuple[Step, ...]:
        steps = _steps_in(data)
        wrong = [one.text for one in plan_faults((*earlier, *steps))] or problems(steps)
        if not plan.literal:
            wrong += [flaw.text for flaw in template_flaws(steps)]
        if wrong:
            raise AgentError("; ".join(wrong))
        return steps

    async def ask(question: Question, key: str) -> Answer:
        return await ctx.ask_person(question, key=key)

    decision = await ask_for_decision(ask, approval_question(text, draft.decode(), form="json"), key, read_edit)
    if not decision.approved:
        return Failure(member="", error="planning", message=f"the plan was rejected: {decision.reason}")
    return plan if decision.edited is None else replace(plan, steps=decision.edited)


def _steps_in(data: JsonValue) -> tuple[Step, ...]:
    """Return the steps of an edited plan; raises `AgentError` with every mistake in its form."""
    try:
        value: JsonValue = from_json(data) if isinstance(data, str) else data
    except ValueError as error:
        raise AgentError(f"it is no JSON: {error}") from error
    try:
        return Plan.model_validate(value).steps
    except ValidationError as error:
        raise AgentError("; ".join(reasons_of(error, value, Plan))) from error
