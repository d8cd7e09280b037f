"""Decides on a change of the plan: the lead on proposals of experts, a person where it is asked to confirm or has pins.

It runs in a branch and changes nothing; the loop over finished branches applies what was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from teamwright.agents.approval import ask_for_decision
from teamwright.agents.contract.agent import Context
from teamwright.errors import AgentError
from teamwright.experts.collaboration.drafts import APPROVAL_SCHEMA, Approval, read_form
from teamwright.experts.collaboration.state import NOTICE, CollaborationState
from teamwright.strategies.plan.change import (
    PlanChange,
    apply_change,
    change_between,
    change_problems,
    pin_conflicts,
    route_change,
)
from teamwright.strategies.plan.difference import plan_difference
from teamwright.strategies.plan.plan_check import size_problems
from teamwright.values.people import Answer, Question, approval_question
from teamwright.values.specs.plan import Plan
from teamwright.values.text.validation_messages import reasons_of
from teamwright.values.turns.messages import Message

APPROVE = (
    "{by} proposes to change the plan of your team, as above. Decide whether it helps the task. Answer with one JSON"
    ' object: "approve" is true or false, and "reason" is one sentence.'
)


@dataclass(frozen=True, slots=True)
class ChangeDecision:
    """A change that `by` wants, and what was decided: `change` is None where the plan stays as it is.

    `to` is who decided: the lead, an empty name for a person, or None where the change needs no decision. `phase` is
    the one that waits for it, and `number` that of a proposal.
    """

    by: str
    change: PlanChange | None = None
    to: str | None = None
    reason: str = ""
    difference: tuple[str, ...] = ()
    by_person: bool = False
    phase: str = ""
    number: int = 0


async def decide_change(
    state: CollaborationState, plan: Plan, change: PlanChange, by: str, ctx: Context
) -> ChangeDecision:
    """Let those decide on a change who have to."""
    lead = state.team.lead
    if problems := model_change_problems(state, plan, change):
        return ChangeDecision(by, to=lead, reason="; ".join(problems))
    decision = ChangeDecision(
        by, change, reason=change.reason, difference=plan_difference(plan, apply_change(plan, change)).lines
    )
    if route_change(plan, change, "lead" if by == lead else "expert") == "ask_lead":
        decision = await _ask_lead(state, decision, ctx)
    asks_person = state.options.confirm or route_change(plan, change, "lead") == "ask_person"
    if decision.change is not None and asks_person:
        decision = await _ask_person(state, plan, decision, ctx)
    return decision


def model_change_problems(state: CollaborationState, plan: Plan, change: PlanChange) -> list[str]:
    """Return every reason why a change that a model wants can't be made, its size among them."""
    found = change_problems(plan, change, state.team)
    return found or size_problems(plan, apply_change(plan, change), state.options.max_phases)


async def confirm_plan(state: CollaborationState, plan: Plan, ctx: Context) -> ChangeDecision:
    """Ask a person to approve the plan before it runs; an edit is a change of the person."""
    lines = plan_difference(None, plan).lines
    text = "\n".join(("Approve the plan of the team?", *lines))
    question = approval_question(text, to_json(plan.to_json()).decode(), form="json")
    decided = await ask_for_decision(partial(_ask, ctx), question, "plan/confirm", partial(_edited_plan, state, plan))
    if not decided.approved:
        return ChangeDecision("", to="", reason=decided.reason or "a person refused the plan")
    edited = decided.edited or PlanChange()
    return ChangeDecision("", edited, to="", by_person=True)


async def _ask_lead(state: CollaborationState, decision: ChangeDecision, ctx: Context) -> ChangeDecision:
    shown = "\n".join((*decision.difference, f"The reason: {decision.reason}" if decision.reason else ""))
    history = [Message(name=NOTICE, content=shown.strip(), role="user")]
    read = partial(read_form, form=Approval)
    found = await state.consult(APPROVE.format(by=decision.by), history, ctx, "approve", APPROVAL_SCHEMA, read)
    if found is None or not found.approve:
        reason = "the lead did not decide" if found is None else found.reason
        return replace(decision, change=None, to=state.team.lead, reason=reason)
    return replace(decision, to=state.team.lead, reason=found.reason or decision.reason)


async def _ask_person(state: CollaborationState, plan: Plan, decision: ChangeDecision, ctx: Context) -> ChangeDecision:
    """Ask a person about the difference alone: what it approved before and is unchanged needs no approval."""
    assert decision.change is not None
    conflicts = pin_conflicts(plan, decision.change)
    lines = [f"{decision.by} wants to change the plan:", *decision.difference]
    lines += [f"It is against what a person edited: {'; '.join(conflicts)}."] if conflicts else []
    draft = to_json(decision.change.model_dump(mode="json", exclude_defaults=True)).decode()
    question = approval_question("\n".join(lines), draft, form="json")
    decided = await ask_for_decision(partial(_ask, ctx), question, "confirm", partial(_edited_change, state, plan))
    if not decided.approved:
        return replace(decision, change=None, to="", reason=decided.reason)
    edited = decided.edited
    return replace(decision, change=edited or decision.change, to="", by_person=edited is not None)


async def _ask(ctx: Context, question: Question, key: str) -> Answer:
    return await ctx.ask_person(question, key=key)


def _edited_change(state: CollaborationState, plan: Plan, data: JsonValue) -> PlanChange:
    try:
        change = PlanChange.model_validate(data)
    except ValidationError as error:
        raise AgentError("; ".join(reasons_of(error, data, PlanChange))) from error
    return _checked(state, plan, change)


def _edited_plan(state: CollaborationState, plan: Plan, data: JsonValue) -> PlanChange:
    """Return the change that a person made of the plan."""
    try:
        after = Plan.model_validate(data)
    except ValidationError as error:
        raise AgentError("; ".join(reasons_of(error, data, Plan))) from error
    change = change_between(plan, after)
    return _checked(state, plan, change) if change else change


def _checked(state: CollaborationState, plan: Plan, change: PlanChange) -> PlanChange:
    if problems := change_problems(plan, change, state.team):
        raise AgentError("; ".join(problems))
    return change
