"""Changes of a running plan: the lead decides on proposals of members, a person on what it confirms or has pinned.

A decision is made beside the steps and changes nothing; the loop over steps applies it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TypeGuard

from pydantic import JsonValue, ValidationError
from pydantic_core import from_json, to_json

from teamwright.agents.agent import AppliedChange, Context
from teamwright.agents.review import ask_for_decision
from teamwright.errors import AgentError
from teamwright.strategies.plan.closing import PlanAnswer, closer_of
from teamwright.strategies.plan.options import own_key
from teamwright.strategies.plan.plan_change import (
    PlanChange,
    apply_change,
    change_between,
    pin_conflicts,
    plan_difference,
    route_change,
)
from teamwright.strategies.plan.plan_check import task_template
from teamwright.strategies.plan.planned_steps import (
    APPROVAL_SCHEMA,
    Approval,
    PlannedChange,
    change_of,
    proposal_in,
    read_form,
)
from teamwright.strategies.plan.planner import AskChange, Planner, Progress, change_problems_of_model
from teamwright.strategies.plan.state import NOTICE, PlanState
from teamwright.strategies.plan.steps.crew import StepCrew
from teamwright.strategies.plan.steps.step_runner import Then
from teamwright.strategies.plan.versions import open_steps
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.events.team import TeamDecided, TeamPlanProposed
from teamwright.values.people import Answer, Question, StopStep, approval_question
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.validation_messages import reasons_of
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Reply

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


SCOPE = "plan"
"""The scope of everything that a team with a timeout asks for."""
REJECTED = "A person rejected these steps: {reason}"
NO_RESULT = "There is no result of this step."


async def _as_it_is(change: PlanChange, _: Context) -> PlanChange:
    return change


class PlanChanges:
    """The changes of one plan."""

    def __init__(self, state: PlanState, crew: StepCrew, planner: Planner, answer: PlanAnswer, ctx: Context) -> None:
        self._state, self._crew, self._planner, self._answer, self._outer = state, crew, planner, answer, ctx
        self._options, self._is_led = state.options, state.options.is_led
        self._prefix = "" if state.options.timeout is None else f"{SCOPE}/"
        crew.runner.watch(self.take, self.step_ended)
        self._proposals = self._decisions = self._rejected = self._asides = 0
        self.decided_enough = state.options.decide == "ahead"
        """Whether the lead decides on nothing more."""
        self._quotable: list[object] = [proposal_in(Reply.of("user", state.task.text))]
        """The changes in the task and in replies of members, which are none of the lead where it repeats them."""

    async def take(self, place: str, ctx: Context) -> bool:
        """Take what people changed before this branch starts; return whether the plan has changed."""
        versions = self._state.versions
        assert versions is not None
        has_parts = not (self._is_led and is_unsplit(self._crew.runner.queue.steps.get(place)))
        split = "" if has_parts else own_key(f"split-{self._next_aside()}/{place}")
        before = self._prefix + (split or place)  # whichever begins first: nothing new comes before it
        apply, check = versions.apply, versions.problem
        done = await self._outer.changes(before=before, apply=apply, messages=True, check=check, at_once=self._stop)
        if not done and not split:
            return False
        said = await versions.announce_edits(done)
        if split and is_unsplit(step := self._state.plan.by_id.get(place)):
            self._consult(split, self._planner.split(step), frozenset((place,)))
        if said and self._is_led and self._crew.board is not None and self._options.decide == "ahead":
            ask, held = self._planner.redirect("\n\n".join(said)), open_steps(self._state.plan.steps)
            self._consult(own_key(f"redirect-{self._next_aside()}"), ask, held)
        await self._crew.set_steps(ctx)
        return True

    def outer_place(self, place: str) -> str:
        """Return a place of the plan as it is seen from outside of its time limit, where people change it."""
        return self._prefix + place

    def _stop(self, applied: AppliedChange) -> str | None:
        """Stop a step, because a person wants it; what needs it goes on without its result."""
        stop, versions = applied.change, self._state.versions
        assert isinstance(stop, StopStep)
        assert versions is not None
        if (problem := versions.problem(stop)) is not None:
            return problem
        why = f": {stop.reason}" if stop.reason else ""
        self._state.warn([f"the step {stop.step!r} was stopped by {stop.by or 'a person'}{why}"])
        versions.stopped.add(stop.step)
        self._crew.runner.stop(stop.step)
        return None

    def _next_aside(self) -> int:
        self._asides += 1
        return self._asides

    def _consult(self, name: str, ask: AskChange, held: frozenset[str], by: str = "", then: Then | None = None) -> None:
        """Let those decide on a change of the lead, or `by` another, who have to; these steps wait for it.

        They decide for the plan as it is now: on a resume, other changes may come before they are asked again.
        """
        self._crew.held[name] = held
        work = partial(self._decide, ask, by or self._state.team.lead.name, self._state.plan)
        self._crew.runner.start_aside(name, work, then or partial(self._decided, name))

    async def _decide(self, ask: AskChange, by: str, plan: Plan, ctx: Context) -> ChangeDecision:
        return await decide_change(self._state, plan, await ask(ctx), by, ctx)

    async def _decided(self, name: str, decision: object, ctx: Context) -> None:
        """Apply what was decided about a change, if the plan still allows it."""
        assert isinstance(decision, ChangeDecision)
        self._crew.held.pop(name, None)
        await self._apply(decision, ctx)
        await self._crew.set_steps(ctx)

    async def _apply(self, decision: ChangeDecision, ctx: Context) -> None:
        versions, change = self._state.versions, decision.change
        assert versions is not None
        late = versions.problems(change) or decision.new_conflicts(self._state.plan) if change is not None else []
        if decision.to is not None or late:
            fact = TeamPlanProposed(
                by=decision.by,
                to=decision.to or "",
                approved=change is not None and not late,
                difference=decision.difference,
                reason="; ".join(late) or decision.reason,
            )
            await ctx.emit(fact)
        if change is not None and not late:
            await versions.change(change, decision.by, by_person=decision.by_person)

    async def step_ended(self, id_: str, ctx: Context) -> None:
        """Note how work on a step ended, and what follows; a step that the lead may change has not ended yet."""
        board = self._crew.board
        if board is None:
            self._crew.runner.end_step(id_)
            return
        execution = board.executions.get(id_)
        if execution is not None:
            if execution.awaits == "adjustment":
                await self._adjust(id_, ctx)
                return
            if execution.awaits == "plan":
                self._crew.runner.hold_after(id_)
            if execution.abandons_plan:
                await self._abandon(id_, ctx)
        self._crew.runner.end_step(id_)
        if self._is_led and id_ in self._state.results.replies:
            await self._read_proposals(id_, ctx)

    async def _adjust(self, id_: str, ctx: Context) -> None:
        """Let the lead change a step before it is tried again."""
        assert self._crew.board is not None
        failure, number = self._crew.board.executions[id_].failure, self._next_aside()
        assert failure is not None
        self._crew.runner.suspend(id_, own_key(f"again-{number}/{id_}"))
        assert self._state.versions is not None
        await self._state.versions.reassign_left()
        ask = self._planner.adjust(self._state.plan.by_id[id_], failure)
        name = own_key(f"adjust-{number}/{id_}")
        self._consult(name, ask, frozenset((id_,)), then=partial(self._try_again, id_, name))
        await self._crew.set_steps(ctx)

    async def _try_again(self, id_: str, name: str, decision: object, ctx: Context) -> None:
        """Try a step again as the lead has changed it, or end it where that can't help."""
        board = self._crew.board
        assert isinstance(decision, ChangeDecision)
        assert board is not None
        self._crew.held.pop(name, None)
        await self._apply(decision, ctx)
        step = self._state.plan.by_id.get(id_)
        if step is not None and id_ not in self._crew.runner.queue.skipped:  # a person has stopped it
            self._crew.bound.bind(self._state.plan.steps)
            execution = board.executions[id_]
            agent = self._crew.bound.agent_of(step) or execution.agent
            if not execution.adjusted(self._crew.bound.assignments[id_], agent):
                await board.give_up(id_, ctx)
                if execution.abandons_plan:
                    await self._abandon(id_, ctx)
        await self._crew.set_steps(ctx)

    async def _abandon(self, id_: str, ctx: Context) -> None:
        """Leave the plan: one agent finishes the task."""
        failure = self._state.results.failures[id_]
        self._state.warn([f"the step {id_!r} failed ({failure.error}: {failure.message})"])
        self._crew.runner.hold_after(id_)
        if not self._answer.is_abandoned:
            self._answer.abandon(id_, f"the step {id_!r} failed")
            assert self._state.versions is not None
            await self._state.versions.set_status("fallback", f"the step {id_!r} failed")

    async def _read_proposals(self, id_: str, ctx: Context) -> None:
        """Start a decision on each change of the plan that the work on a step proposes."""
        state, lead = self._state, self._state.team.lead.name
        replies = [*state.work_on(id_), state.results.replies[id_]]
        for reply in {id(one): one for one in replies}.values():
            draft, by = proposal_in(reply), reply.full.messages[-1].name if reply.full.messages else ""
            if draft is None or by not in (*state.team.names, lead):
                continue
            if by == lead:
                if draft in self._quotable:  # the words of another, over which the lead decides as a proposal
                    continue
            else:
                self._quotable.append(draft)
                if self._proposals >= self._options.proposals:
                    continue
                self._proposals += 1
            await self._propose(draft, by, ctx)

    async def _propose(self, draft: PlannedChange | ParseFailure, by: str, ctx: Context) -> None:
        state, lead = self._state, self._state.team.lead.name
        change = draft if isinstance(draft, ParseFailure) else change_of(draft, state.change_form, state.plan)
        if isinstance(change, ParseFailure):
            await ctx.emit(TeamPlanProposed(by=by, to=lead, reason=f"it can't be used: {change.problem}"))
            return
        held = frozenset((*(step.id for step in change.put), *change.remove))
        self._consult(own_key(f"proposal-{self._next_aside()}"), partial(_as_it_is, change), held, by)
        await self._crew.set_steps(ctx)

    async def plan_again(self, ctx: Context) -> None:
        """Let the lead plan again for the steps that failed; without another plan they are given up."""
        state, board = self._state, self._crew.board
        assert board is not None
        assert state.versions is not None
        if self._planner.can_plan_again:
            await self.take(self._planner.next_replan, ctx)  # the lead plans from what people have changed
        plan = state.plan
        lost, open_ = set(board.lost), self._crew.runner.queue.open
        progress = Progress(
            ended=tuple(step for step in plan.steps if step.id not in lost and step.id not in open_),
            lost=tuple(step for step in plan.steps if step.id in lost),
            open=tuple(step for step in plan.steps if step.id in open_),
            with_results=frozenset(state.results.replies),
        )
        found = await self._planner.plan_again(progress, ctx) if self._planner.can_plan_again else None
        change, by_person = None, False
        if isinstance(found, tuple):
            read, reason = found
            state.new_roles |= read.new_roles
            ids = {step.id for step in read.steps}
            gone = tuple(step.id for step in progress.open if step.id not in ids)
            same = {step.id: step for step in progress.open}
            put = tuple(step for step in read.steps if same.get(step.id) != step)
            change = PlanChange(put=put, remove=gone, reason="; ".join((reason, *read.repaired)))
            if self._options.confirm or pin_conflicts(plan, change):
                decision = await self._confirmed(change, ctx)
                change, by_person = decision.change, decision.by_person
        if change is None:
            for id_ in board.lost:
                await board.give_up(id_, ctx)
                if board.executions[id_].abandons_plan:
                    await self._abandon(id_, ctx)
            queue = self._crew.runner.queue
            queue.set_steps([*queue.steps.values()], closer_of(plan.steps, self._options))
            return
        await board.replace_lost(ctx)
        state.versions.retired |= lost
        change = change.model_copy(update={"remove": (*change.remove, *(step.id for step in progress.lost))})
        self._answer.earlier = {step.id for step in progress.ended}
        if change:
            await state.versions.change(change, state.team.lead.name, by_person=by_person, told=False)
        await self._crew.set_steps(ctx)

    async def _confirmed(self, change: PlanChange, ctx: Context) -> ChangeDecision:
        async with ctx.scope(own_key(f"confirm-replan-{self._planner.replans}")) as inner:
            return await decide_change(self._state, self._state.plan, change, self._state.team.lead.name, inner)

    async def decide(self, ctx: Context) -> None:
        """Let the lead decide on what comes next from what it has seen."""
        state, planned = self._state, self._state.plan.steps
        self.show_results()
        left = self._options.max_steps - len(planned) - self._rejected
        if left < 1:
            self.decided_enough = True
            return
        self._decisions += 1
        number = self._decisions
        if await self.take(own_key(f"decide-{number}"), ctx) and open_steps(state.plan.steps):
            return  # the lead decides from what comes of them
        found = await self._planner.decide(number, left, ctx)
        if not isinstance(found, tuple):
            self.decided_enough = True
            if isinstance(found, Failure):
                self._answer.undecided(found)
            return
        read, said = found
        state.view.append(Message(name=state.team.lead.name, content=said))
        state.new_roles |= read.new_roles
        assert state.versions is not None
        if not read.steps:
            self.decided_enough = True
        else:
            change = PlanChange(put=read.steps, reason="; ".join(read.repaired))
            if not await self._agreed(change, number, ctx):
                return
            await self._crew.set_steps(ctx)
        to = tuple(agent.name for step in read.steps if (agent := self._crew.bound.agent_of(step)) is not None)
        action = "delegate" if read.steps else "synthesize"
        await ctx.emit(TeamDecided(by=state.team.lead.name, action=action, iteration=number, to=to))

    async def _agreed(self, change: PlanChange, number: int, ctx: Context) -> bool:
        """Apply the steps that the lead decided on; a person who approves plans may edit or reject them."""
        state, lead = self._state, self._state.team.lead.name
        assert state.versions is not None
        by_person = False
        if self._options.confirm or pin_conflicts(state.plan, change):
            async with ctx.scope(own_key(f"confirm-{number}")) as inner:
                decision = await decide_change(state, state.plan, change, lead, inner)
            if decision.change is None:
                self._rejected += 1
                state.view.append(Message(name=NOTICE, content=REJECTED.format(reason=decision.reason), role="user"))
                return False
            change, by_person = decision.change, decision.by_person
        await state.versions.change(change, lead, by_person=by_person, told=False)
        return True

    def show_results(self) -> None:
        """Show a lead that decides stepwise what came of steps since it decided last."""
        if self._options.decide != "stepwise":
            return
        shown = self._answer.shown
        for step in self._state.plan.steps:
            if step.id not in shown:
                shown.add(step.id)
                if step.id in self._state.results.replies:
                    message = self._state.outputs.message_of(step.id)
                else:
                    message = Message(name=step.id, content=NO_RESULT, role="user")
                self._state.view.append(message)


def is_unsplit(step: Step | None) -> TypeGuard[Step]:
    """Return whether the task of a step has to be split first."""
    return step is not None and step.parallel == "subtask_parallel" and not step.parts
