"""What the lead plans: the phases, where none are declared, the parts of a phase, and another split of a failed one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from teamwright.agents.contract.agent import Context
from teamwright.agents.review import REVIEW_EXCEEDED
from teamwright.errors import ExpressionFailed, InvalidValue
from teamwright.experts.collaboration.change_decision import ChangeDecision, decide_change, model_change_problems
from teamwright.experts.collaboration.drafts import (
    FORM,
    ChangeDraft,
    PlanDraft,
    change_schema,
    plan_schema,
    read_form,
)
from teamwright.experts.collaboration.state import CollaborationState
from teamwright.strategies.plan.change import PlanChange
from teamwright.strategies.plan.difference import plan_difference
from teamwright.strategies.plan.plan_check import phase_text, plan_problems, size_problems
from teamwright.strategies.protocol import introduction
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.specs.plan import Part, Plan, Step
from teamwright.values.turns.turn import Failure, Reply

PLAN = """\
You lead a team. Plan its work in phases. Answer with one JSON object: {{"steps": [phases]}}.
{form}
The members of your team:
{members}"""
SPLIT = """\
The phase {phase!r} of the plan is next, and its task has no parts yet. Split it among {experts}: answer with one JSON \
object, {{"put": [the phase with its parts], "reason": "…"}}.
{form}"""
RETRY = """\
The phase {phase!r} of the plan {how} and is tried once more; what is done of it is above. If another split, or \
other experts, would help, answer with one JSON object, {{"put": [the phase, changed], "reason": "…"}}; answer {{}} \
to try it as it is.
{form}
The members of your team:
{members}"""


REDIRECT = """\
A person says to your team: {said}
Its plan is now as follows; what has started stays as it is:
{plan}
If the plan should change for that, answer with one JSON object, {{"put": [phases that are new or replaced], \
"remove": [ids], "reason": "…"}}; answer {{}} to keep it.
{form}
The members of your team:
{members}"""


async def write_plan(state: CollaborationState, ctx: Context) -> Plan | None:
    """Let the lead write the plan; None if it gives none that can be used."""
    text = PLAN.format(form=FORM, members=_introduced(state))
    read = partial(_read_plan, state)
    return await state.consult(text, (), ctx, "lead/plan", plan_schema(state.team.members), read)


async def split_phase(state: CollaborationState, plan: Plan, phase: Step, ctx: Context) -> ChangeDecision:
    """Let the lead split the task of a phase; each expert gets the whole task if the lead gives no usable split."""
    experts = phase.workers(state.team)
    text = SPLIT.format(phase=phase.id, experts=", ".join(experts), form=FORM)
    change = await _consult(state, plan, phase, f"{text}\n\n{_task_text(state, phase)}", ctx)
    if change is None or not any(one.id == phase.id and one.parts for one in change.put):
        return undivided(state, phase)
    return replace(await decide_change(state, plan, change, state.team.lead, ctx), phase=phase.id)


def undivided(state: CollaborationState, phase: Step) -> ChangeDecision:
    """Let each expert of a phase work on the whole task, where there is no other split."""
    parts = tuple(Part(id=name, agent=name) for name in dict.fromkeys(phase.workers(state.team) or state.team.members))
    whole = phase.model_copy(update={"parts": parts, "agents": ()})
    return ChangeDecision(state.team.lead, PlanChange(put=(whole,), reason="no other split"), phase=phase.id)


async def split_again(
    state: CollaborationState, plan: Plan, phase: Step, failure: Failure, ctx: Context
) -> ChangeDecision:
    """Let the lead adjust a phase that failed, before it is tried once more."""
    how = "did not pass its milestone" if failure.error == REVIEW_EXCEEDED else f"failed at {failure.asked!r}"
    text = RETRY.format(phase=phase.id, how=how, form=FORM, members=_introduced(state))
    change = await _consult(state, plan, phase, f"{text}\n\n{_task_text(state, phase)}", ctx)
    if not change:
        return ChangeDecision(state.team.lead, phase=phase.id)
    return replace(await decide_change(state, plan, change, state.team.lead, ctx), phase=phase.id)


async def plan_again(state: CollaborationState, plan: Plan, said: str, number: int, ctx: Context) -> ChangeDecision:
    """Let the lead change the plan for what a person said; without a usable answer the plan stays as it is."""
    lines = plan_difference(None, plan).lines
    text = REDIRECT.format(said=said, plan="\n".join(lines), form=FORM, members=_introduced(state))
    turn = state.lead_turn(text, state.learnt(), change_schema(state.team.members))
    reply = state.receive(await ctx.ask(state.lead, turn, key="plan-again"))
    change = _read_change(state, plan, reply) if isinstance(reply, Reply) else None
    if not isinstance(change, PlanChange) or not change:
        return ChangeDecision(state.team.lead, number=number)
    return replace(await decide_change(state, plan, change, state.team.lead, ctx), number=number)


async def _consult(state: CollaborationState, plan: Plan, phase: Step, text: str, ctx: Context) -> PlanChange | None:
    history = [*state.inputs_of(phase), *state.unfinished(phase.id)]
    read = partial(_read_change, state, plan)
    return await state.consult(text, history, ctx, "split", change_schema(state.team.members), read)


def _read_plan(state: CollaborationState, reply: Reply) -> Plan | ParseFailure:
    draft = read_form(reply, PlanDraft)
    if isinstance(draft, ParseFailure):
        return draft
    try:
        steps = tuple(one.phase(None, state.team) for one in draft.steps)
    except InvalidValue as error:
        return ParseFailure(str(error))
    plan = Plan(steps=steps, variables=state.options.variables)
    problems = [*size_problems(None, plan, state.options.max_phases), *plan_problems(plan, state.team)]
    return ParseFailure("; ".join(problems)) if problems else plan


def _read_change(state: CollaborationState, plan: Plan, reply: Reply) -> PlanChange | ParseFailure:
    draft = read_form(reply, ChangeDraft)
    if isinstance(draft, ParseFailure):
        return draft
    try:
        change = draft.change(plan, state.team)
    except InvalidValue as error:
        return ParseFailure(str(error))
    problems = model_change_problems(state, plan, change) if change else []
    return ParseFailure("; ".join(problems)) if problems else change


def _task_text(state: CollaborationState, phase: Step) -> str:
    try:
        task = state.task_of(phase)
    except ExpressionFailed:
        task = phase.task
    return phase_text(phase, task)


def _introduced(state: CollaborationState) -> str:
    members = {member.name: member for member in state.members}
    return "\n".join(f"- {introduction(member)}" for member in members.values())
