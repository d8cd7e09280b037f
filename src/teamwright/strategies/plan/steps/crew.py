"""Those who work on the steps of a plan: who is asked for each, with which turn, and how a step is done once.

Several members may share a step: each works on a part, which the lead puts together, or all work on the same task. Of
such a competition one answer counts. How it is found is not decided here: that is a port, which an optional part fills.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
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
from teamwright.strategies.plan.state import ANSWER, PlanState
from teamwright.strategies.plan.steps.step_board import StepBoard, StepInput, as_message, with_role
from teamwright.strategies.plan.steps.step_queue import Skip
from teamwright.strategies.plan.steps.step_runner import Prelude, StepRunner
from teamwright.strategies.plan.steps.step_work import StepAssignment, Work
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.events.team import StepSkipped
from teamwright.values.limits import ClosingAsk
from teamwright.values.specs.plan import Part, Step
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Turn
from teamwright.wings import required_hook

ASSEMBLE = (
    "Your team worked on a step of its plan in parts; the results of the parts are above. Put them together to one"
    " result of the step."
)
TurnFor = Callable[[str, str | None], Turn]
"""Returns the turn of a member, with the task of the step or another one."""
AskForWork = Callable[[Agent, Turn, str, Context, str | None], Awaitable[Work | Failure]]
"""Asks a member for work under a key; with a task of its own, if it has one."""
MergeEntries = Callable[["Entries", Context], Awaitable[Work | Failure]]


@dataclass(slots=True)
class SharedStep:
    """One attempt at a step of several members; `prefix` begins the keys of its asks."""

    state: PlanState
    step: Step
    number: int
    prefix: str
    turn_for: TurnFor
    work_of: AskForWork
    done_parts: dict[tuple[str, Part, str | None], Work]
    """The parts that are done stay so: another attempt asks only for those that are new, changed or failed."""
    closes: bool = False
    """Whether the team closes with this step."""

    @property
    def width(self) -> int:
        """How many of its members work at once."""
        return self.state.options.width_for(self.state.members)

    async def run(self, ctx: Context) -> Work | Failure:
        """Let all work, and make one result of what they give."""
        if self.step.parallel == "competitive_parallel":
            names = self.step.workers(self.state.team.roster)
            with ctx.keep_back(self._merge_asks(names), closes=self.closes):
                return await self._compete(names, ctx)
        names = dict.fromkeys(self.step.workers(self.state.team.roster) or self.state.team.names)
        parts = self.step.parts or tuple(Part(id=name, agent=name) for name in names)
        closing = [ClosingAsk(self.state.team.lead.name, len(parts))] if len(parts) > 1 else []
        with ctx.keep_back(closing, closes=self.closes):
            return await self._in_parts(parts, ctx)

    async def ask(self, member: Agent, task: str | None, place: int, at: str, ctx: Context) -> Work | Failure:
        """Ask a member for work; `at` is the branch of the step in which the context is."""
        own = None if task is None else self.state.outputs.own_task(self.step, task)
        work = await self.work_of(member, self.turn_for(member.name, task), WORK, ctx, own)
        if isinstance(work, Failure):
            return work
        self.state.add(self.step.id, self.number, place, work.reply)
        return replace(work, key=f"{at}/{work.key}")

    async def ask_lead(self, text: str, results: Sequence[Message], key: str, ctx: Context) -> Work | Failure:
        """Let the lead make one result of several."""
        state = self.state
        history = [*state.inputs_of(self.step), *results]
        turn = state.lead_turn(f"{text}\n\n{state.about(self.step)}", history, closing=True)
        key = f"{self.prefix}{key}"
        reply = await ctx.ask(state.team.lead, turn, key=key)
        if isinstance(reply, Failure):
            return reply
        return Work(state.team.lead, turn, key, reply)

    async def _in_parts(self, parts: Sequence[Part], ctx: Context) -> Work | Failure:
        done: dict[str, Work] = {}
        failed: dict[str, Failure] = {}
        async with ctx.branches(self.width) as branches:
            for place, part in enumerate(parts, start=1):
                # The only part is the work on the step, which did not pass.
                if len(parts) > 1 and (kept := self.done_parts.get(self._key_of(part))) is not None:
                    done[part.id] = kept
                else:
                    at = f"{self.prefix}part-{place}"
                    branches.start(at, partial(self._do_part, part, place, at, done, failed))
        if fatal := [name for name, failure in failed.items() if not failure.optional]:
            return _failure(parts, failed, fatal)
        for failure in failed.values():
            self.state.go_on_without(failure)
        in_order = [part.id for part in parts if part.id in done]
        if not in_order:
            return _failure(parts, failed, list(failed))
        if len(parts) == 1:
            return done[in_order[0]]
        results = [as_message(name, done[name].reply) for name in in_order]
        return await self.ask_lead(ASSEMBLE, results, "assemble", ctx)

    async def _do_part(
        self, part: Part, place: int, at: str, done: dict[str, Work], failed: dict[str, Failure], ctx: Context
    ) -> None:
        member = self.state.members.named(part.agent)
        work = await self.ask(member, part.task, place, at, ctx)
        if isinstance(work, Failure):
            failed[part.id] = work
        else:
            done[part.id] = self.done_parts[self._key_of(part)] = work

    def _key_of(self, part: Part) -> tuple[str, Part, str | None]:
        """Return what makes a part the same in another attempt: with its task, which may be that of the step."""
        return self.step.id, part, self.state.outputs.task_text(self.step) if part.task is None else None

    def _merge_asks(self, names: Sequence[str]) -> list[ClosingAsk]:
        """Return the asks that make one of the answers of these competitors: of the lead, or the votes of all."""
        if len(names) == 1:
            return []
        count = len(names) if self.step.enough is None else min(self.step.enough, len(names))
        asked = [self.state.team.lead.name, *(self.state.team.names if self.step.merge == "vote" else ())]
        return [ClosingAsk(name, count) for name in asked] if count > 1 else []

    async def _compete(self, names: Sequence[str], ctx: Context) -> Work | Failure:
        """Let all compete until there are enough answers, and make one of them."""
        entries = Entries(self, {}, {})
        enough = self.step.enough
        async with ctx.branches(
            self.width, until=lambda: enough is not None and len(entries.works) >= enough
        ) as branches:
            for place, name in enumerate(names, start=1):
                at, member = f"{self.prefix}entry-{place}", self.state.members.named(name)
                branches.start(at, partial(self._enter, entries, member, place, at))
        if not entries.works:
            first = entries.failed[min(entries.failed)]
            return first.changed(message=f"{first.message} (all {len(names)} competitors failed)", optional=False)
        for _, failure in sorted(entries.failed.items()):
            self.state.go_on_without(failure)
        entries.works = dict(sorted(entries.works.items(), key=lambda one: int(one[0].rpartition("-")[2])))
        return await merge_port()(entries, ctx)

    async def _enter(self, entries: Entries, member: Agent, place: int, at: str, ctx: Context) -> None:
        work = await self.ask(member, None, place, at, ctx)
        if isinstance(work, Failure):
            entries.failed[place] = work
        else:
            entries.works[f"answer-{place}"] = work


@dataclass(slots=True)
class Entries:
    """The answers of a competition by the names under which they are shown, and the competitors that failed."""

    attempt: SharedStep
    works: dict[str, Work]
    failed: dict[int, Failure]

    @property
    def state(self) -> PlanState:
        """What the team knows."""
        return self.attempt.state

    @property
    def step(self) -> Step:
        """The step of the competition."""
        return self.attempt.step

    def shown(self, names: Sequence[str]) -> list[Message]:
        """Return answers without their authors, because judges are biased by names."""
        return [as_message(name, self.works[name].reply) for name in names]


def _failure(parts: Sequence[Part], failed: dict[str, Failure], among: Sequence[str]) -> Failure:
    """Return the failure of the first of these parts, in the order of the plan, with the names of all."""
    names = [part.id for part in parts if part.id in among]
    first = failed[names[0]]
    return first.changed(message=f"{first.message} (parts: {', '.join(names)})", optional=False)


def merge_port() -> MergeEntries:
    """Return what makes one of several answers; raises `UsageError` where the part that does it is not installed."""
    return required_hook("merge_entries", "A competition of several members")


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
