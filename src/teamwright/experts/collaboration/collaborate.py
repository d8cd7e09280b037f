"""The strategy of teams that work through phases together: in turn, in parts and in competition.

The lead plans if no phases are declared, puts parts together, decides competitions and writes the answer. Where the
plan fails, one agent finishes the task with everything that was learnt.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.agents.contract.agent import Context
from teamwright.experts.collaboration.change_decision import confirm_plan
from teamwright.experts.collaboration.drafts import example_reply
from teamwright.experts.collaboration.execution import Execution
from teamwright.experts.collaboration.planner import write_plan
from teamwright.experts.collaboration.state import NOTICE, CollaborateOptions, CollaborationState
from teamwright.experts.collaboration.versions import PlanVersions
from teamwright.strategies.plan.difference import plan_difference
from teamwright.strategies.plan.plan_check import phase_flaws
from teamwright.strategies.protocol import (
    STEERABLE,
    Arrow,
    Diagram,
    ExpectedAsks,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
)
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.events.team import TeamPlanChanged, TeamPlanStatus
from teamwright.values.limits import ClosingAsk
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Turn

ANSWER = "Your team has worked through its plan; the results of its phases are above. Put the answer together."
FALLBACK = (
    "The team could not finish its plan, and you finish the task alone. What it has learnt is above; check it before"
    " you use it."
)
REJECTED = "rejected"


class Collaborate(Strategy):
    """Phases, each as soon as its needs are settled and their milestones have passed; the lead answers."""

    name = "collaborate"
    version = 1
    options = CollaborateOptions
    unused = ("max_turns", "on_max_turns")
    interventions = (*STEERABLE, "edit_plan", "add_member", "remove_member")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check the phases, and that each member is listed once."""
        options = settings.read(CollaborateOptions)
        if not members:
            return []
        team = options.roster(members)
        found = phase_flaws(options.steps, team)
        found += (_kept_by_runs(index, one) for index, one in enumerate(options.steps) if not one.is_open)
        if len(set(team.members)) < len(team.members):
            found.append(Issue("'collaborate' takes each member once, but one is listed twice"))
        return found

    def lead(self, settings: Settings, members: Members) -> str:
        """Return the lead."""
        return settings.read(CollaborateOptions).lead_of(members).name

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each phase, and the answer of the lead."""
        steps = settings.read(CollaborateOptions).steps
        return {one.id: one.execution_tokens + one.coordination_tokens for one in steps} | {"lead": 0}

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the answer of the lead and, if another agent is declared for it, the end of a plan that failed."""
        options = settings.read(CollaborateOptions)
        closers = dict.fromkeys((options.lead_of(members).name, options.finisher_of(members).name))
        return [ClosingAsk(name) for name in closers]

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return a plan, a choice or a decision, as the schema says."""
        return None if turn.output_schema is None else example_reply(turn.output_schema)

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the phases and their needs, and the lead, who answers."""
        options = settings.read(CollaborateOptions)
        lead = Node(id="lead/answer", agent=options.lead_of(members).name, about="answers")
        if not options.steps:
            planned = Node(id="lead/plan", agent=lead.agent, about="plans the phases")
            return Diagram(nodes=(planned, lead), arrows=(Arrow(source=planned.id, to=lead.id),))
        nodes = [Node(id=one.id, agent=_one_agent(one), label=one.title, about=_about(one)) for one in options.steps]
        needed = {need for one in options.steps for need in one.needs}
        arrows = [Arrow(source=need, to=one.id) for one in options.steps for need in one.needs]
        arrows += [Arrow(source=one.id, to=lead.id) for one in options.steps if one.id not in needed]
        return Diagram(nodes=(*nodes, lead), arrows=tuple(arrows), notes=(f"{options.max_parallel} at once",))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Make the plan, execute it, and let the lead answer, or one agent finish what the team could not."""
        state = CollaborationState(task, members)
        plan = state.options.plan or await write_plan(state, ctx)
        if plan is None:
            if state.terminated_by is None and state.unpaid is None:
                await ctx.emit(TeamPlanStatus(status="fallback", plan_version=1, reason="the lead gave no usable plan"))
            return await _finish(state, ctx, fallback=True)
        versions = PlanVersions(state, plan)
        if refused := await _open_plan(state, versions, ctx):
            return TeamConversation(task).failed(refused)
        execution = Execution(state, versions)
        await execution.run(ctx)
        if state.unpaid is not None and not execution.failed:
            await versions.set_status("failed", ctx, "the budget did not cover it")
        return await _finish(state, ctx, fallback=bool(execution.failed))


async def _open_plan(state: CollaborationState, versions: PlanVersions, ctx: Context) -> Failure | None:
    """Record the plan, and let a person approve it where one has to; return the refusal of the person, if any."""
    await ctx.emit(plan_fact(state, versions.plan))
    if state.options.confirm:
        decision = await confirm_plan(state, versions.plan, ctx)
        if decision.change is None:
            await versions.set_status("failed", ctx, decision.reason)
            return Failure(member=state.team.lead, error=REJECTED, message=decision.reason)
        if decision.change:
            await versions.change(decision, ctx)
        await versions.set_status("confirmed", ctx)
    await versions.set_status("executing", ctx)
    return None


def plan_fact(state: CollaborationState, plan: Plan) -> TeamPlanChanged:
    """Return the fact of the first version of a plan."""
    lines = plan_difference(None, plan).lines
    by = "" if state.options.steps else state.team.lead
    return TeamPlanChanged(
        plan_version=plan.version, plan=plan.to_json(), lead=state.team.lead, by=by, difference=lines
    )


async def _finish(state: CollaborationState, ctx: Context, *, fallback: bool) -> Outcome:
    """Let the lead answer or, with `fallback`, one agent finish; return the outcome with all messages."""
    talk = TeamConversation(state.task)
    for reply in state.conversation:
        if reply is not state.terminated_by:
            talk.add(reply)
    talk.warnings += (text for text in state.warnings if text not in talk.warnings)
    if state.terminated_by is not None:
        talk.add(state.terminated_by)
        return talk.ended("terminated")
    if state.unpaid is not None:
        talk.cut_short(state.unpaid)
    learnt = state.learnt()
    if fallback:
        note = Message(name=NOTICE, content=FALLBACK, role="user")
        history = History.of((*state.task.history, *learnt, note))
        turn = Turn(state.task.text, history, 1, attachments=state.task.attachments, closing=True)
        reply = await ctx.ask(state.finisher, turn, key="plan/fallback")
    elif not learnt:
        return talk.ended("done", "every phase was skipped")
    else:
        reply = await ctx.ask(state.lead, state.lead_turn(ANSWER, learnt, closing=True), key="lead/answer")
    return talk.receive(reply) or talk.ended("done")


def _kept_by_runs(index: int, phase: Step) -> Issue:
    text = f"the phase {phase.id!r} says status: {phase.status}; a run keeps the status, leave it out"
    return Issue(text, ("steps", index, "status"))


def _one_agent(phase: Step) -> str:
    return phase.experts[0] if phase.parallel == "serial" else ""


def _about(phase: Step) -> str:
    who = ", ".join(phase.experts) if phase.parallel != "serial" else ""
    how = {"serial": "", "subtask_parallel": "in parts", "competitive_parallel": f"compete, {phase.merge}"}
    gate = "milestone" if phase.evaluate is not None else ""
    return " · ".join(filter(None, (who, how[phase.parallel], gate)))
