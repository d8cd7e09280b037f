"""One run of a plan: it is made, worked through while it may change, and answered.

Only the loop over steps changes the plan, in an order that a resumed run repeats. A plan ends when its steps have
ended, or with its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from teamwright.agents.contract.agent import Agent, Context
from teamwright.errors import AgentTimeout
from teamwright.strategies.parts import WORK
from teamwright.strategies.plan.bound_plan import BoundPlan, plan_problems_of
from teamwright.strategies.plan.bound_roles import has_capability, steps_of_roles
from teamwright.strategies.plan.change import PlanChange
from teamwright.strategies.plan.change_decision import ChangeDecision, confirm_plan, decide_change
from teamwright.strategies.plan.closing import PlanAnswer, closer_of, planning_outcome
from teamwright.strategies.plan.conflicts import ConflictResolver
from teamwright.strategies.plan.discussion import Discussion
from teamwright.strategies.plan.exchange import Exchange
from teamwright.strategies.plan.lead import Lead
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.planned_steps import PlannedChange, ReadSteps, change_of, proposal_in
from teamwright.strategies.plan.planner import Planner, Progress
from teamwright.strategies.plan.rounds import BriefedRounds
from teamwright.strategies.plan.shared_steps import SharedStep
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.step_board import StepBoard, with_role
from teamwright.strategies.plan.step_outputs import StepInput
from teamwright.strategies.plan.step_runner import Prelude, StepRunner
from teamwright.strategies.plan.step_work import Work
from teamwright.strategies.plan.versions import PlanVersions, open_steps
from teamwright.strategies.plan.workers import Floor, OneConversation, OpenFloor, WorkerPool
from teamwright.strategies.protocol import Members, Task
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.events.team import LifeState, TeamDecided, TeamLife, TeamPlanned, TeamPlanProposed
from teamwright.values.limits import Limits
from teamwright.values.specs.plan import Part, Plan, Step
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn

SCOPE = "plan"
"""The scope of everything that a team with a timeout asks for."""
ONE_STEP = "task"
"""The id of the only step of a plan that replaces one that could not be made."""
NO_RESULT = "There is no result of this step."


class PlanRun:
    """The hooks of the step runner, and those who work on the steps."""

    def __init__(self, name: str, task: Task, options: PlanOptions, members: Members, ctx: Context) -> None:
        self._name, self._task, self._options, self._outer = name, task, options, ctx
        self.state = state = PlanState(task, options, members)
        self._planner, self._bound = Planner(state), BoundPlan(state)
        self._board = StepBoard(state.results, options, self) if options.keeps_states else None
        self._lead = Lead(state.team.lead, task) if options.is_led else None
        named = None if options.has_one_worker else state.members
        self._pool = WorkerPool(options.workers_of(members), options.width_for(members), named)
        self._discussion = Discussion(state, ctx) if options.talks else None
        self._floor = self._make_floor()
        self._runner = StepRunner(
            task,
            (),
            options.policy,
            self,
            in_order=options.sees == "all",
            as_listed=options.talks,
            outputs=state.outputs,
        )
        self._floor.runner = self._runner
        self._answer = PlanAnswer(state, self._board, self._lead, self._discussion, self._runner)
        self._done_parts: dict[tuple[str, Part], Work] = {}
        self._held: dict[str, frozenset[str]] = {}
        """The steps that wait for decisions, by the branch of the decision."""
        self._facts: set[object] = set()
        self._proposals = self._decisions = self._asides = 0
        self._decided_enough = options.decide == "ahead"
        self._mended = ""
        """What was mended in the plan of the lead."""
        self._quotable: list[object] = []
        """The changes in the task and in replies of members, which are none of the lead where it repeats them."""

    # What the ladder of a step may use.

    @property
    def can_replan(self) -> bool:
        """Whether the lead may plan again after a failure."""
        return self._planner.can_plan_again

    @property
    def can_adjust(self) -> bool:
        """Whether the lead may change a step before it is tried again."""
        return self._options.is_led and self._options.ladder is not None and self._options.ladder.adjust

    async def produce(self, step: Step, agent: Agent, turn: Turn, key: str, ctx: Context) -> Work | Failure:
        """Let the agent, or all who work on the step, do it once."""
        if step.is_shared:
            number = self._attempts(step.id)
            turn_for = partial(self._turn_of, step)
            shared = SharedStep(self.state, step, number, key.removesuffix(WORK), turn_for, self._done_parts)
            return await shared.run(ctx)
        reply = await ctx.ask(agent, turn, key=key)
        if isinstance(reply, Failure):
            return reply
        work = Work(agent, turn, key, reply)
        return work if self._discussion is None else await self._discussion.settle(step, work, ctx)

    def exchange(self, step: Step, failed: Agent) -> Agent:
        """Return who tries a step again: the least busy other of the pool, or another one with its capability."""
        assignment = self._bound.assignments.get(step.id)
        if self._options.pool:
            return self._pool.exchange(step, failed)
        if step.agent is not None or assignment is None or assignment.role.agent is not None:
            return failed
        judges = assignment.evaluator.declaration.judges if assignment.evaluator is not None else ()
        able = (one for one in self.state.team if one.name != failed.name and one.name not in judges)
        return next((one for one in able if has_capability(one, assignment.role)), failed)

    def _attempts(self, step: str) -> int:
        return 1 + max((attempt for attempt, _ in self.state.said.get(step, ())), default=0)

    # The hooks of the runner.

    def place_of(self, step: Step) -> str:
        """Return the branch that a step starts first."""
        return self._floor.place_of(step)

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the agent of a step that starts now."""
        if self._board is None and not self._options.pool and not self._options.has_one_worker:
            return self.state.team.named(step.agent or step.id) if step.role is None else self._bound_agent(step, ctx)
        return self._bound_agent(step, ctx)

    def _bound_agent(self, step: Step, ctx: Context) -> Agent:
        agent = self._bound.agent_of(step)
        return self._pool.acquire(step, ctx) if agent is None or self._options.pool else agent

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return the turn of the agent that works on a step, with what its role says."""
        step = step_input.step
        turn = self._floor.make_turn(step_input, self._runner.workers[step.id].name)
        return turn if self._board is None else with_role(turn, self._bound.assignments[step.id])

    def _turn_of(self, step: Step, member: str, task: str | None) -> Turn:
        """Return the turn of one of several members, with the task of the step or another one."""
        number = self._runner.position(step.id)
        step_input = self.state.outputs.input_of(step, number)
        if task is not None:
            step_input = step_input._replace(own_task=self.state.outputs.own_task(step, task))
        return self._floor.make_turn(step_input, member)

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return the work that must complete before a step starts, if any."""
        return self._floor.prelude(step, worker)

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Release the agent of a step, and process its result."""
        if self._options.pool:
            execution = self._board.executions.get(step.id) if self._board is not None else None
            self._pool.release(worker if execution is None else execution.agent)
        await self._floor.after_step(step, worker, ctx)

    async def _work(self, step: Step, ctx: Context, agent: Agent, turn: Turn) -> Reply | Failure:
        assert self._board is not None
        return await self._board.work(self._bound.assignments[step.id], agent, turn, ctx)

    # The run.

    async def outcome(self) -> Outcome:
        """Work through the plan, within the timeout if there is one, and return the outcome.

        Time in which everything waits for people or providers does not count.
        """
        ctx = self._outer
        if self._options.timeout is None:
            ended = await self._run(ctx)
            timed_out = False
        else:
            try:
                async with ctx.scope(SCOPE, Limits(seconds=self._options.timeout), working=True) as inner:
                    ended = await self._run(inner)
                timed_out = False
            except AgentTimeout:
                ended, timed_out = None, True
        if ended is None:
            ended = await self._answer.outcome(ctx, timed_out=timed_out)
        await self._enter("completed", ctx)
        await self._enter("dissolved", ctx)
        return ended

    async def _run(self, ctx: Context) -> Outcome | None:
        """Plan, work and answer; return an outcome if there is no plan."""
        await self._enter("forming", ctx)
        await self._enter("planning", ctx)
        plan = await self._first_plan(ctx)
        if isinstance(plan, Failure):
            return planning_outcome(plan, self.state.warnings)
        if plan is not None:
            refused = await self._open(plan, ctx)
            if refused is not None:
                return planning_outcome(refused, self.state.warnings)
            await self._enter("executing", ctx)
            await self._work_through(ctx)
        if self._answer.follows:
            await self._enter("synthesizing", ctx)
        await self._answer.give(ctx)
        return None

    async def _first_plan(self, ctx: Context) -> Plan | Failure | None:
        """Return the plan; a failure if there is none, or None where the team ends without one."""
        options, state = self._options, self.state
        if options.steps:
            return Plan(steps=options.steps, variables=options.variables)
        if options.decide == "stepwise":
            return Plan.model_construct(steps=(), variables=options.variables)
        if not options.is_led:
            return Plan(steps=steps_of_roles(state.roles), variables=options.variables)
        read = await self._planner.write_plan(ctx)
        if read is None:
            return None
        if isinstance(read, ReadSteps):
            return self._made(read)
        return self._without_plan(read)

    def _made(self, read: ReadSteps) -> Plan:
        """Return the plan of the lead, and keep what was mended in it for the record."""
        self.state.new_roles |= read.new_roles
        self._mended = "; ".join(read.mended)
        return Plan(steps=read.steps, variables=self._options.variables)

    def _without_plan(self, failure: Failure) -> Plan | Failure | None:
        """Return what replaces a plan that the lead did not give."""
        state, lead = self.state, self.state.team.lead.name
        why = (
            failure.message if failure.error == "planning" else f"{lead!r} failed ({failure.error}: {failure.message})"
        )
        match self._options.on_planner_failure:
            case "single_step_fallback":
                role = next(iter(state.roles))
                state.warn([f"the lead {lead!r} gave no plan ({why}); the task is one step of the role {role!r}"])
                return Plan(steps=(Step(id=ONE_STEP, role=role),))
            case "step_each":
                if failure.error != "planning":
                    return failure
                state.warn([f"{lead!r} gave no plan that can be used, so each member works on the task in turn: {why}"])
                return Plan(steps=tuple(Step(id=name) for name in state.team.roster.workers or state.team.names))
            case "finish":
                state.warn([why])
                self._answer.abandon("", f"{lead!r} gave no usable plan")
                return None
            case "fail_fast":
                return Failure(member="", error="planning", message=f"there is no plan: {why}")

    async def _open(self, plan: Plan, ctx: Context) -> Failure | None:
        """Record the plan, let a person approve it where one has to, and bind its steps; return why it can't run."""
        state, options = self.state, self._options
        if self._board is not None and plan.steps and (problems := plan_problems_of(state, state.roles, plan)):
            return Failure(member="", error="planning", message="; ".join(problems))
        check = lambda plan, roster: plan_problems_of(state, state.roles, plan, roster)  # noqa: E731
        state.versions = versions = PlanVersions(plan, state.team, check)
        self._quotable.append(proposal_in(Reply.of("user", self._task.text)))
        if self._board is not None and plan.steps:
            by = state.team.lead.name if options.is_planned_by_lead else ""
            await versions.announce(ctx, by=by, reason=self._mended)
        if options.confirm and plan.steps and (refused := await self._confirm(versions, ctx)) is not None:
            return refused
        versions.status_of = self._runner.status_of
        await self._set_steps(ctx)
        if plan.steps and (self._board is not None or options.is_led or options.has_one_worker):
            await ctx.emit(self._planned(versions.plan))
        if self._board is not None:
            await versions.set_status("executing", ctx)
            self._runner.work_by(self._work)
        else:
            self._runner.evaluate_steps(state.members)
        self._runner.watch(self._take_changes, self._step_ended)
        return None

    async def _confirm(self, versions: PlanVersions, ctx: Context) -> Failure | None:
        """Let a person approve the plan; return the refusal, if it is one."""
        change = await confirm_plan(self.state, versions.plan, ctx)
        if isinstance(change, Failure):
            await versions.set_status("failed", ctx, change.message)
            return change
        if change:
            await versions.change(change, "", ctx, by_person=True)
        await versions.set_status("confirmed", ctx)
        return None

    async def _set_steps(self, ctx: Context) -> None:
        """Continue with the steps of the present plan."""
        steps = self.state.plan.steps
        self._pool.set_workers(
            self._options.workers_of(Members(self.state.team, [self.state.team.lead])),
            None if self._options.has_one_worker else self.state.members,
        )
        if self._board is not None or self._options.pool:
            self._bound.bind(steps)
        if self._board is not None:
            self._board.keep(steps)
            for fact in self._bound.binding.facts():
                if fact not in self._facts and fact.role:
                    self._facts.add(fact)
                    await ctx.emit(fact)
        self._floor.set_steps(steps, self._outer)
        held = frozenset[str]().union(*self._held.values())
        self._runner.waiting = held
        runnable = steps if self._board is None else [step.model_copy(update={"limits": None}) for step in steps]
        self.state.outputs.plan_variables = self.state.plan.variables
        self._runner.change_steps(runnable, closer_of(steps, self._options))

    async def _work_through(self, ctx: Context) -> None:
        """Run the steps; then plan again after failures, decide on what comes next, and take what people changed."""
        state = self.state
        width = self._options.width_for(state.members)
        while True:
            await self._floor.run(width, ctx)
            if state.results.is_over or self._answer.is_abandoned:
                return
            if self._board is not None and self._board.lost:
                await self._plan_again(ctx)
            elif not self._decided_enough:
                await self._decide(ctx)
            elif not await self._take_changes("answer", ctx):
                return

    # Changes of the plan.

    async def _take_changes(self, place: str, ctx: Context) -> bool:
        """Take what people changed before this branch starts; return whether the plan has changed."""
        versions = self.state.versions
        assert versions is not None
        at = place if self._options.timeout is None else f"{SCOPE}/{place}"
        edits = await versions.take_edits(at, self._outer)
        step = self._runner.steps.get(place)
        splits = step is not None and step.parallel == "subtask_parallel" and not step.parts and self._options.is_led
        if not edits.changed and not edits.said and not splits:
            return False
        if splits and step is not None:
            self._consult(f"split-{self._next_aside()}/{place}", partial(self._split, step), frozenset((place,)))
        if self._options.is_led and self._board is not None and self._options.decide == "ahead":
            for text in edits.said:
                held = open_steps(self.state.plan.steps)
                self._consult(f"redirect-{self._next_aside()}", partial(self._redirect, text), held)
        await self._set_steps(ctx)
        return True

    def _next_aside(self) -> int:
        self._asides += 1
        return self._asides

    def _consult(self, name: str, work: object, held: frozenset[str]) -> None:
        """Let those decide on a change who have to, beside the steps; these steps wait for it."""
        self._held[name] = held
        self._runner.start_aside(name, work, partial(self._decided, name))  # pyright: ignore[reportArgumentType]

    async def _split(self, step: Step, ctx: Context) -> ChangeDecision:
        change = await self._planner.split(step, ctx)
        return await decide_change(self.state, change, self.state.team.lead.name, ctx)

    async def _redirect(self, text: str, ctx: Context) -> ChangeDecision:
        change = await self._planner.redirect(text, ctx)
        return await decide_change(self.state, change, self.state.team.lead.name, ctx)

    async def _decided(self, name: str, decision: object, ctx: Context) -> None:
        """Apply what was decided about a change, if the plan still allows it."""
        assert isinstance(decision, ChangeDecision)
        self._held.pop(name, None)
        await self._apply(decision, ctx)
        await self._set_steps(ctx)

    async def _apply(self, decision: ChangeDecision, ctx: Context) -> None:
        versions, change = self.state.versions, decision.change
        assert versions is not None
        late = versions.problems(change) if change is not None else []
        if decision.to is not None:
            fact = TeamPlanProposed(
                by=decision.by,
                to=decision.to,
                approved=change is not None and not late,
                difference=decision.difference,
                reason="; ".join(late) or decision.reason,
            )
            await ctx.emit(fact)
        if change is not None and not late:
            await versions.change(change, decision.by, ctx, by_person=decision.by_person)

    async def _step_ended(self, id_: str, ctx: Context) -> None:
        """Note how work on a step ended, and what follows; a step that the lead may change has not ended yet."""
        execution = self._board.executions.get(id_) if self._board is not None else None
        if execution is not None:
            if execution.awaits == "adjustment":
                await self._adjust(id_, ctx)
                return
            if execution.awaits == "plan":
                self._runner.hold_after(id_)
            if execution.abandons_plan:
                await self._abandon(id_, ctx)
        self._runner.end_step(id_)
        if self._board is not None and self._options.is_led and id_ in self.state.results.replies:
            await self._read_proposals(id_, ctx)

    async def _adjust(self, id_: str, ctx: Context) -> None:
        """Let the lead change a step before it is tried again."""
        assert self._board is not None
        failure, number = self._board.executions[id_].failure, self._next_aside()
        assert failure is not None
        self._runner.suspend(id_, f"retry-{number}/{id_}")
        assert self.state.versions is not None
        await self.state.versions.reassign_left(ctx)
        work, name = partial(self._adjusted, self.state.plan.by_id[id_], failure), f"adjust-{number}/{id_}"
        self._held[name] = frozenset((id_,))
        self._runner.start_aside(name, work, partial(self._try_again, id_, name))
        await self._set_steps(ctx)

    async def _adjusted(self, step: Step, failure: Failure, ctx: Context) -> ChangeDecision:
        change = await self._planner.adjust(step, failure, ctx)
        return await decide_change(self.state, change, self.state.team.lead.name, ctx)

    async def _try_again(self, id_: str, name: str, decision: object, ctx: Context) -> None:
        """Try a step again as the lead has changed it, or end it where that can't help."""
        board = self._board
        assert isinstance(decision, ChangeDecision)
        assert board is not None
        self._held.pop(name, None)
        await self._apply(decision, ctx)
        step = self.state.plan.by_id.get(id_)
        if step is not None:
            self._bound.bind(self.state.plan.steps)
            execution = board.executions[id_]
            agent = self._bound.agent_of(step) or execution.agent
            if not execution.adjusted(self._bound.assignments[id_], agent):
                await board.give_up(id_, ctx)
                if execution.abandons_plan:
                    await self._abandon(id_, ctx)
        await self._set_steps(ctx)

    async def _abandon(self, id_: str, ctx: Context) -> None:
        """Leave the plan: one agent finishes the task."""
        failure = self.state.results.failures[id_]
        self.state.warn([f"the step {id_!r} failed ({failure.error}: {failure.message})"])
        self._runner.hold_after(id_)
        if not self._answer.is_abandoned:
            self._answer.abandon(id_, f"the step {id_!r} failed")
            assert self.state.versions is not None
            await self.state.versions.set_status("fallback", ctx, f"the step {id_!r} failed")

    async def _read_proposals(self, id_: str, ctx: Context) -> None:
        """Start a decision on each change of the plan that the work on a step proposes."""
        state, lead = self.state, self.state.team.lead.name
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
        state, lead = self.state, self.state.team.lead.name
        change = draft if isinstance(draft, ParseFailure) else change_of(draft, state.form, state.plan)
        if isinstance(change, ParseFailure):
            await ctx.emit(TeamPlanProposed(by=by, to=lead, reason=f"it can't be used: {change.problem}"))
            return
        held = frozenset((*(step.id for step in change.put), *change.remove))
        self._consult(f"proposal-{self._next_aside()}", partial(self._consider, change, by), held)
        await self._set_steps(ctx)

    async def _consider(self, change: PlanChange, by: str, ctx: Context) -> ChangeDecision:
        return await decide_change(self.state, change, by, ctx)

    async def _plan_again(self, ctx: Context) -> None:
        """Let the lead plan again for the steps that failed; without another plan they are given up."""
        state, board, plan = self.state, self._board, self.state.plan
        assert board is not None and state.versions is not None
        lost, open_ = set(board.lost), self._runner.open_steps
        progress = Progress(
            ended=tuple(step for step in plan.steps if step.id not in lost and step.id not in open_),
            lost=tuple(step for step in plan.steps if step.id in lost),
            open=tuple(step for step in plan.steps if step.id in open_),
            with_results=frozenset(state.results.replies),
        )
        found = await self._planner.plan_again(progress, ctx) if self._planner.can_plan_again else None
        change = None
        if isinstance(found, tuple):
            read, reason = found
            state.new_roles |= read.new_roles
            ids = {step.id for step in read.steps}
            gone = tuple(step.id for step in progress.open if step.id not in ids)
            same = {step.id: step for step in progress.open}
            put = tuple(step for step in read.steps if same.get(step.id) != step)
            change = PlanChange(put=put, remove=gone, reason="; ".join((reason, *read.mended)))
            decision = await self._confirmed(change, ctx) if self._options.confirm else ChangeDecision("", change)
            change = decision.change
        if change is None:
            for id_ in board.lost:
                failure = await board.give_up(id_, ctx)
                if board.executions[id_].abandons_plan:
                    await self._abandon(id_, ctx)
                state.results.failures[id_] = failure
            self._runner.change_steps([*self._runner.steps.values()], closer_of(plan.steps, self._options))
            return
        await board.replace_lost(ctx)
        change = change.model_copy(update={"remove": (*change.remove, *(step.id for step in progress.lost))})
        self._answer.earlier = {step.id for step in progress.ended}
        self._runner.forget(*lost)
        if change:
            await state.versions.change(change, state.team.lead.name, ctx, told=False)
        await self._set_steps(ctx)

    async def _confirmed(self, change: PlanChange, ctx: Context) -> ChangeDecision:
        async with ctx.scope(f"confirm-replan-{self._planner.replans}") as inner:
            return await decide_change(self.state, change, self.state.team.lead.name, inner)

    async def _decide(self, ctx: Context) -> None:
        """Let the lead decide on what comes next from what it has seen."""
        state, planned = self.state, self.state.plan.steps
        self._show_results(planned)
        left = self._options.max_steps - len(planned)
        if left < 1:
            self._decided_enough = True
            return
        self._decisions += 1
        number = self._decisions
        if await self._take_changes(f"decide-{number}", ctx):
            planned = state.plan.steps
        found = await self._planner.decide(number, left, ctx)
        if not isinstance(found, tuple):
            self._decided_enough = True
            if isinstance(found, Failure):
                self._answer.undecided(found)
            return
        read, said = found
        state.view.append(Message(name=state.team.lead.name, content=said))
        state.new_roles |= read.new_roles
        assert state.versions is not None
        if not read.steps:
            self._decided_enough = True
        else:
            change = PlanChange(put=read.steps, reason="; ".join(read.mended))
            await state.versions.change(change, state.team.lead.name, ctx, told=False)
            await self._set_steps(ctx)
        to = tuple(agent.name for step in read.steps if (agent := self._bound.agent_of(step)) is not None)
        action = "delegate" if read.steps else "synthesize"
        await ctx.emit(TeamDecided(by=state.team.lead.name, action=action, iteration=number, to=to))

    def _show_results(self, steps: Sequence[Step]) -> None:
        """Show the lead what came of steps since it decided last."""
        shown = self._answer.shown
        for step in steps:
            if step.id not in shown:
                shown.add(step.id)
                has_result = step.id in self.state.results.replies
                message = self.state.outputs.message_of(step.id)
                self.state.view.append(message if has_result else Message(name=step.id, content=NO_RESULT, role="user"))

    # Around the run.

    def _make_floor(self) -> Floor:
        options, state = self._options, self.state
        if self._discussion is not None:
            return OpenFloor(state, self._discussion)
        if self._lead is not None and options.handout != "none":
            if options.talk == "all":
                return Exchange(state, self._lead, self._pool)
            briefed = BriefedRounds(state, self._lead)
            if options.talk == "lead" and options.handout == "batch":
                briefed.on_result = ConflictResolver(self._task, briefed, options.rounds_of_talk).resolve
            return briefed
        return OneConversation(state) if options.sees == "all" else Floor(state)

    def _planned(self, plan: Plan) -> TeamPlanned:
        options, members = self._options, self.state.members
        schedule = options.schedule_for(members, plan.steps)
        one_by_one = options.handout == "step" or options.sees == "all"
        hands_out = options.handout != "none"
        workers = tuple(one.name for one in options.workers_of(members)) if hands_out or options.has_one_worker else ()
        return TeamPlanned(
            topology=self._name,
            steps=len(plan.steps),
            rounds=len(plan.steps) if one_by_one else len(schedule.batches),
            width=options.width_for(members),
            lead=self.state.team.lead.name if options.is_led else "",
            workers=workers,
            tokens=schedule.total_tokens if options.handout == "batch" else 0,
            reason=options.reason
            or (f"planned by {self.state.team.lead.name!r}" if options.is_planned_by_lead else ""),
        )

    async def _enter(self, life: LifeState, ctx: Context) -> None:
        """Record the state of a team with a lead, and who is in it."""
        if not (self._options.lead_answers and self._board is not None):
            return
        team = self.state.team
        fact = TeamLife(state=life, lead=team.lead.name, members=tuple(team.names), left=tuple(team.left))
        await ctx.emit(fact)
