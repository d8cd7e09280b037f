"""Decides on a change of the plan: the lead on proposals of members, a person where it is asked to confirm or has pins.

It runs beside the steps and changes nothing; the loop over steps applies what was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from pydantic import JsonValue, ValidationError
from pydantic_core import from_json, to_json

from teamwright.agents.approval import ask_for_decision
from teamwright.agents.contract.agent import Context
from teamwright.errors import AgentError
from teamwright.strategies.plan.changes.change import (
    PlanChange,
    apply_change,
    change_between,
    pin_conflicts,
    route_change,
)
from teamwright.strategies.plan.changes.difference import plan_difference
from teamwright.strategies.plan.options import own_key
from teamwright.strategies.plan.plan_check import task_template
from teamwright.strategies.plan.planned_steps import APPROVAL_SCHEMA, Approval, read_form
from teamwright.strategies.plan.planner import change_problems_of_model
from teamwright.strategies.plan.state import NOTICE, PlanState
from teamwright.values.people import Answer, Question, approval_question
from teamwright.values.specs.plan import Plan
from teamwright.values.text.validation_messages import reasons_of
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure

APPROVE = (
    "{by} proposes to change the plan of your team, as above. Decide whether it helps the task. Answer with one JSON"
    ' object: "approve" is true or false, and "reason" is one sentence.'
)
QUESTION = "May the team work by this plan?"


@dataclass(frozen=True, slots=True)
class ChangeDecision:
    """A change that `by` wants, and what was decided: `change` is None where the plan stays as it is.

    `to` is who decided: the lead, an empty name for a person, or None where the change needs no decision. `seen` is
    the plan that it was decided for.
    """

    by: str
    change: PlanChange | None = None
    to: str | None = None
    reason: str = ""
    difference: tuple[str, ...] = ()
    by_person: bool = False
    seen: Plan | None = None

    def new_conflicts(self, plan: Plan) -> list[str]:
        """Return what a person has edited since the decision, and the change would undo."""
        change, seen = self.change, self.seen
        if change is None or seen is None or self.by_person:
            return []
        since, own = plan_difference(seen, plan), {*(step.id for step in change.put), *change.remove, *change.variables}
        changed = {*since.steps, *(one.name for one in since.variables)}
        return pin_conflicts(plan, change) if own & changed else []


async def decide_change(state: PlanState, plan: Plan, change: PlanChange, by: str, ctx: Context) -> ChangeDecision:
    """Let those decide on a change of a plan who have to."""
    lead = state.team.lead.name
    if not change:
        return ChangeDecision(by)
    if problems := change_problems_of_model(state, plan, change):
        return ChangeDecision(by, to=lead, reason="; ".join(problems))
    lines = plan_difference(plan, apply_change(plan, change)).lines
    decision = ChangeDecision(by, change, reason=change.reason, difference=lines, seen=plan)
    if route_change(plan, change, "lead" if by == lead else "expert") == "ask_lead":
        decision = await _ask_lead(state, decision, ctx)
    asks_person = state.options.confirm or route_change(plan, change, "lead") == "ask_person"
    if decision.change is not None and asks_person:
        decision = await _ask_person(state, plan, decision, ctx)
    return decision


async def confirm_plan(state: PlanState, plan: Plan, ctx: Context) -> PlanChange | Failure:
    """Return what a person has changed in the plan before it runs; a failure if it was rejected."""
    text = "\n".join((QUESTION, *plan_difference(None, plan).lines))
    question = approval_question(text, to_json(plan.to_json(), indent=2).decode(), form="json")
    decided = await ask_for_decision(
        partial(_ask, ctx), question, own_key("confirm"), partial(_edited_plan, state, plan)
    )
    if not decided.approved:
        return Failure(member="", error="planning", message=f"the plan was rejected: {decided.reason}")
    return decided.edited or PlanChange()


async def _ask_lead(state: PlanState, decision: ChangeDecision, ctx: Context) -> ChangeDecision:
    lead = state.team.lead.name
    shown = "\n".join((*decision.difference, f"The reason: {decision.reason}" if decision.reason else ""))
    history = [Message(name=NOTICE, content=shown.strip(), role="user")]
    read = partial(read_form, form=Approval)
    found = await state.consult(APPROVE.format(by=decision.by), history, ctx, "approve", APPROVAL_SCHEMA, read)
    if not isinstance(found, Approval) or not found.approve:
        reason = found.reason if isinstance(found, Approval) else "the lead did not decide"
        return replace(decision, change=None, to=lead, reason=reason)
    return replace(decision, to=lead, reason=found.reason or decision.reason)


async def _ask_person(state: PlanState, plan: Plan, decision: ChangeDecision, ctx: Context) -> ChangeDecision:
    """Ask a person about the difference alone: what it approved before and is unchanged needs no approval."""
    assert decision.change is not None
    conflicts = pin_conflicts(plan, decision.change)
    lines = [f"{decision.by} wants to change the plan:", *decision.difference]
    lines += [f"It is against what a person edited: {'; '.join(conflicts)}."] if conflicts else []
    draft = to_json(decision.change.model_dump(mode="json", exclude_defaults=True)).decode()
    question = approval_question("\n".join(lines), draft, form="json")
    decided = await ask_for_decision(partial(_ask, ctx), question, "confirm", partial(_edited_change, state))
    if not decided.approved:
        return replace(decision, change=None, to="", reason=decided.reason)
    edited = decided.edited
    return replace(decision, change=edited or decision.change, to="", by_person=edited is not None)


async def _ask(ctx: Context, question: Question, key: str) -> Answer:
    return await ctx.ask_person(question, key=key)


def _edited_change(state: PlanState, data: JsonValue) -> PlanChange:
    try:
        change = PlanChange.model_validate(_parsed(data))
    except ValidationError as error:
        raise AgentError("; ".join(reasons_of(error, data, PlanChange))) from error
    assert state.versions is not None
    if problems := state.versions.problems(change):
        raise AgentError("; ".join(problems))
    return change


def _edited_plan(state: PlanState, plan: Plan, data: JsonValue) -> PlanChange:
    """Return the change that a person made of the plan."""
    value = _parsed(data)
    try:
        after = Plan.model_validate(value)
    except ValidationError as error:
        raise AgentError("; ".join(reasons_of(error, value, Plan))) from error
    if state.options.is_planned_by_lead:  # whose tasks are plain texts
        plain = (
            one if one.task is None else one.model_copy(update={"task": task_template(one.task)}) for one in after.steps
        )
        after = after.model_copy(update={"steps": tuple(plain)})
    change = change_between(plan, after)
    assert state.versions is not None
    if change and (problems := state.versions.problems(change)):
        raise AgentError("; ".join(problems))
    return change


def _parsed(data: JsonValue) -> JsonValue:
    try:
        return from_json(data) if isinstance(data, str) else data
    except ValueError as error:
        raise AgentError(f"it is no JSON: {error}") from error
