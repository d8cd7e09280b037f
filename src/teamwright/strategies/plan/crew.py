"""Those who work on the steps of a plan: who is asked for each, with which turn, and how a step is done once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from msgspec import structs

from teamwright.agents.agent import Agent, Context
from teamwright.agents.review import ask_evaluated, reviewed_turn
from teamwright.strategies.part_results import WORK, PartWork
from teamwright.strategies.plan.bound_plan import BoundPlan, evaluator_of_step
from teamwright.strategies.plan.bound_roles import has_capability
from teamwright.strategies.plan.closing import closer_of, decision_of
from teamwright.strategies.plan.conflicts import ConflictResolver
from teamwright.strategies.plan.discussion import Discussion, Exchange
from teamwright.strategies.plan.planner import Planner
from teamwright.strategies.plan.rounds import BriefedRounds, Floor, Lead, OneConversation, WorkerPool
from teamwright.strategies.plan.shared_steps import SharedStep
from teamwright.strategies.plan.state import ANSWER, PlanState
from teamwright.strategies.plan.step_board import StepBoard, StepInput, with_role
from teamwright.strategies.plan.step_runner import Prelude, Skip, StepRunner
from teamwright.strategies.plan.step_work import StepAssignment, Work
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.events.team import StepSkipped
from teamwright.values.specs.plan import Part, Step
from teamwright.values.turns.turn import Failure, Turn


class StepCrew:
    """The hooks of the step runner, and what the ladder of a step may use.

    Without a `board`, a step is one ask, and its state is not recorded.
    """

    def __init__(self, state: PlanState, planner: Planner, ctx: Context) -> None:
        options = state.options
        self._state, self._options, self._planner, self._ctx = state, options, planner, ctx
        self.bound = BoundPlan(state)
        self.board = StepBoard(state.results, options, self) if options.keeps_states else None
        self.lead = Lead(state) if options.handout != "none" else None
        members = state.members
        self._has_one_worker = options.has_one_worker
        self._pool = WorkerPool(options.workers_of(members), options.width_for(members))
        self._are_named = self.board is None and not options.pool and not self._has_one_worker
        """Whether each step without a role names its agent, or has the name of one."""
        self.runner = StepRunner(state.outputs, self, in_order=options.sees == "all", as_listed=options.talks)
        self.runner.queue.goes_on = not options.steps and not options.is_led
        self.floor = self._make_floor()
        self.held: dict[str, frozenset[str]] = {}
        """The steps that wait for decisions, by the branch of the decision."""
        self._done_parts: dict[tuple[str, Part, str | None], Work] = {}
        self._facts: set[object] = set()

    def _make_floor(self) -> Floor:
        options, given = self._options, (self._state, self.runner, self._ctx)
        if self.lead is None:
            return (Discussion if options.talks else OneConversation if options.sees == "all" else Floor)(*given)
        if options.talk == "all":
            return Exchange(*given, self.lead, self._pool)
        briefed = BriefedRounds(*given, self.lead)
        if options.talk == "lead" and options.handout == "batch":
            briefed.on_result = ConflictResolver(self._state, briefed).resolve
        return briefed

    async def set_steps(self, ctx: Context) -> None:
        """Continue with the steps of the present plan."""
        plan = self._state.plan
        steps = plan.steps
        self._pool.set_workers(self._options.workers_of(self._state.team.present))
        if self.board is not None or self._options.pool:
            self.bound.bind(steps)
        if self.board is not None:
            self.board.keep(steps)
            for fact in self.bound.binding.facts():
                if fact not in self._facts and fact.role:
                    self._facts.add(fact)
                    await ctx.emit(fact)
        self.floor.set_steps(steps)
        held = frozenset[str]().union(*self.held.values())
        self.runner.queue.waiting = held
        runnable = steps if self.board is None else [step.model_copy(update={"limits": None}) for step in steps]
        self._state.outputs.plan_variables = plan.variables
        self.runner.queue.set_steps(runnable, closer_of(steps, self._options))

    @property
    def can_replan(self) -> bool:
        """Whether the lead may plan again after a failure."""
        return self._planner.can_plan_again

    @property
    def can_adjust(self) -> bool:
        """Whether there is a lead that may change a step before it is tried again."""
        return self._options.is_led

    async def produce(
        self, assignment: StepAssignment, agent: Agent, turn: Turn, key: str, ctx: Context, *, alone: bool
    ) -> Work | Failure:
        """Let the agent, or all who work on the step unless it revises alone, do it once."""
        step = assignment.step
        if alone:
            return self._checked(step, await self.floor.work(assignment, agent, turn, key, ctx, turn.task))
        if not step.is_shared:
            return self._checked(step, await self.floor.work(assignment, agent, turn, key, ctx))
        number, prefix, closes = self._attempts(step.id), key.removesuffix(WORK), turn.closing
        turn_for, work_of = partial(self._turn_of, step), partial(self.floor.work, assignment)
        shared = SharedStep(self._state, step, number, prefix, turn_for, work_of, self._done_parts, closes)
        return await shared.run(ctx)

    def _checked(self, step: Step, work: Work | Failure) -> Work | Failure:
        """Return work on a step if it has the form that it needs: the answer may have to be a decision."""
        if isinstance(work, Failure) or step.id != ANSWER or not self._options.decides:
            return work
        found = decision_of(work.reply, self._state.members.names)
        if isinstance(found, ParseFailure):
            text = f"it is no decision: {found.problem}"
            return Failure(member=work.author.name, error="invalid_output", message=text)
        return replace(work, reply=work.reply.changed(data=found))

    def exchange(self, step: Step, failed: Agent) -> Agent:
        """Return who tries a step again: another one with its capability, in a pool the least busy of them."""
        assignment = self.bound.assignments.get(step.id)
        if assignment is None or step.agent is not None or assignment.role.agent is not None:
            return failed  # without an assignment it is the answer, which is of the lead
        if self._options.pool:
            return self._pool.exchange(failed, assignment)
        team, role = self._state.team, assignment.role
        able = [one for one in team if one.name != failed.name and has_capability(one, role)]
        able = [one for one in able if assignment.may_write(one)]
        others = [one for one in able if not self._options.is_led or one is not team.lead]
        return (*others, *able, failed)[0]

    def _attempts(self, step: str) -> int:
        return 1 + max((attempt for attempt, _ in self._state.said.get(step, ())), default=0)

    def place_of(self, step: Step) -> str:
        """Return the branch that a step starts first; one that the lead works on itself has no briefing."""
        if self.lead is None or self._expected_worker(step) == self.lead.agent.name:
            return step.id
        return self.floor.place_of(step)

    def _expected_worker(self, step: Step) -> str:
        """Return who a step is assigned to; empty where that is decided when it starts, and is never the lead."""
        if self._has_one_worker:
            return ""
        if self._options.pool:
            bound = self.bound.binding.by_step.get(step.id)
            return "" if bound is None else bound.agent.name
        agent = self.bound.agent_of(step)
        return step.agent or step.id if agent is None else agent.name

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the agent of a step that starts now."""
        self._state.outputs.begin(step)
        if self._are_named and step.role is None:
            return self._state.team.named(step.agent or step.id)
        agent = self.bound.agent_of(step)
        return (
            self._pool.acquire(ctx, None if step.is_shared else agent) if self._options.pool or agent is None else agent
        )

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return the turn of the agent that works on a step, with what its role says."""
        step = step_input.step
        turn = self.floor.make_turn(step_input, self.runner.workers[step.id].name)
        return turn if self.board is None else self._reviewed(step, with_role(turn, self.bound.assignments[step.id]))

    def _reviewed(self, step: Step, turn: Turn) -> Turn:
        assignment = self.bound.assignments.get(step.id)
        evaluator = None if assignment is None else assignment.evaluator
        return turn if evaluator is None else reviewed_turn(turn, evaluator)

    def _turn_of(self, step: Step, member: str, task: str | None) -> Turn:
        """Return the turn of one of several members, with the task of the step or another one."""
        number = self.runner.queue.numbers[step.id]
        step_input = self._state.outputs.input_of(step, number)
        if task is not None:
            step_input = step_input._replace(own_task=self._state.outputs.own_task(step, task))
        turn = self._reviewed(step, self.floor.make_turn(step_input, member))
        return structs.replace(turn, merges=not step.is_competition)  # of competing changes, the step applies the best

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return the work that must complete before a step starts, if any."""
        return self.floor.prelude(step, worker)

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Release the agent of a step, and process its result."""
        if self._options.pool:
            execution = self.board.executions.get(step.id) if self.board is not None else None
            self._pool.release(worker if execution is None else execution.agent)
        await self.floor.after_step(step, worker, ctx)

    async def step_skipped(self, step: Step, skip: Skip, ctx: Context) -> None:
        """Record that a step is left out; one that began ends as cancelled."""
        execution = self.board.executions.get(step.id) if self.board is not None else None
        if execution is None:
            await ctx.emit(StepSkipped(step=step.id, reason=skip.reason, because=tuple(skip.because)))
        else:
            await execution.cancel(ctx)

    async def step_stopped(self, step: Step, ctx: Context, *, was_running: bool) -> None:
        """Record the end of a step that a person has stopped, and release who worked on it."""
        execution = self.board.executions.get(step.id) if self.board is not None else None
        worker = self.runner.workers.get(step.id)
        if self._options.pool and worker is not None and was_running:
            self._pool.release(worker if execution is None else execution.agent)
        if execution is None:
            await ctx.emit(StepSkipped(step=step.id, reason="stopped"))
        else:
            await execution.cancel(ctx)

    def work_of(self, step: Step) -> PartWork | None:
        """Return how a step is worked on: as its board says, or by one ask, which may be evaluated."""
        if self.board is not None:
            return partial(self.board.work, self.bound.assignments[step.id])
        if step.evaluate is None:  # without a board, the team has no review for all steps
            return None
        evaluator = evaluator_of_step(step, self._options, self._state.members)
        return None if evaluator is None else partial(ask_evaluated, key=WORK, evaluator=evaluator)
