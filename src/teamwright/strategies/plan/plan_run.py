"""One run of a plan: it is made, worked through while it may change, and answered.

Only the loop over steps changes the plan, in an order that a resumed run repeats. A plan ends when its steps have
ended, or with its time.
"""

from __future__ import annotations

from teamwright.agents.agent import Context
from teamwright.errors import AgentTimeout
from teamwright.strategies.plan.bound_plan import plan_problems_of
from teamwright.strategies.plan.bound_roles import steps_of_roles
from teamwright.strategies.plan.change_decisions import SCOPE, PlanChanges, confirm_plan
from teamwright.strategies.plan.closing import PlanAnswer, planning_outcome
from teamwright.strategies.plan.options import PlanOptions, own_key
from teamwright.strategies.plan.planned_steps import ReadSteps
from teamwright.strategies.plan.planner import Planner
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.crew import StepCrew
from teamwright.strategies.plan.versions import PlanVersions, PresentMembers
from teamwright.strategies.protocol import Members, Task
from teamwright.values.events.team import LifeState, TeamLife, TeamPlanned
from teamwright.values.limits import Limits
from teamwright.values.specs.plan import Plan, Roster, Step
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure

ONE_STEP = "task"
"""The id of the only step of a plan that replaces one that could not be made."""


class PlanRun:
    """One run: who works, what changes, and who answers."""

    def __init__(self, name: str, task: Task, options: PlanOptions, members: Members, ctx: Context) -> None:
        self._name, self._options, self._outer = name, options, ctx
        self.state = state = PlanState(task, options, members)
        self._planner = Planner(state)
        self._crew = crew = StepCrew(state, self._planner, ctx)
        self._answer = PlanAnswer(state, crew.board, crew.floor, crew.lead, crew.runner)
        self._changes = PlanChanges(state, crew, self._planner, self._answer, ctx)
        self._repaired = ""
        """What was repaired in the plan of the lead."""

    async def outcome(self) -> Outcome:
        """Work through the plan, within the timeout if there is one, and return the outcome.

        Time in which everything waits for people or providers does not count.
        """
        is_over = False
        try:
            ended = await self._outcome(self._outer)
            is_over = True
            return ended
        finally:
            if not is_over and self._crew.board is not None:  # stopped from outside: every step that began ends
                await self._crew.board.settle(self._outer, timed_out=False)

    async def _outcome(self, ctx: Context) -> Outcome:
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
            await self._answer.close_plan(ended)
        await self._enter("completed", ctx)
        await self._enter("dissolved", ctx)
        return ended

    async def _run(self, ctx: Context) -> Outcome | None:
        """Plan, work and answer; return an outcome if there is no plan."""
        await self._enter("forming", ctx)
        await self._enter("planning", ctx)
        plan, ended = await self._first_plan(ctx), ""
        if isinstance(plan, Failure):
            return planning_outcome(plan, self.state.warnings)
        if plan is not None:
            refused = await self._open(plan, ctx)
            if refused is not None:
                return planning_outcome(refused, self.state.warnings)
            await self._enter("executing", ctx)
            ended = await self._work_through(ctx)
        if self._answer.follows:
            await self._enter("synthesizing", ctx, ended)
        await self._answer.give(ctx, ended)
        return None

    async def _first_plan(self, ctx: Context) -> Plan | Failure | None:
        """Return the plan; a failure if there is none, or None where the team ends without one."""
        options, state = self._options, self.state
        if options.steps:
            return Plan.model_construct(steps=options.steps, variables=options.variables)  # they are checked
        if options.decide == "stepwise":
            return Plan.model_construct(steps=(), variables=options.variables)
        if not options.is_led:
            return Plan(steps=steps_of_roles(state.roles, declared=options.has_roles), variables=options.variables)
        read = await self._planner.write_plan(ctx)
        if read is None:
            return None
        if isinstance(read, ReadSteps):
            return self._made(read)
        return self._without_plan(read)

    def _made(self, read: ReadSteps) -> Plan:
        """Return the plan of the lead, and keep what was repaired in it for the record."""
        self.state.new_roles |= read.new_roles
        self._repaired = "; ".join(read.repaired)
        return Plan(steps=read.steps, variables=self._options.variables)

    def _without_plan(self, failure: Failure) -> Plan | Failure | None:
        """Return what replaces a plan that the lead did not give."""
        state, lead = self.state, self.state.team.lead.name
        why = (
            failure.message if failure.error == "planning" else f"{lead!r} failed ({failure.error}: {failure.message})"
        )
        match self._options.on_planner_failure:
            case "single_step_fallback":
                role = next(iter(state.roles)) if self._options.has_roles else None
                whose = "whoever is free" if role is None else f"the role {role!r}"
                state.warn([f"the lead {lead!r} gave no plan ({why}); the task is one step of {whose}"])
                return Plan(steps=(Step(id=ONE_STEP, role=role),))
            case "step_each":
                if failure.error != "planning":  # a lead that is down would not answer either
                    return failure
                state.warn([f"{lead!r} gave no plan that can be used, so each member works on the task in turn: {why}"])
                judges = () if self._options.evaluate is None else self._options.evaluate.judges
                names = state.team.roster.workers or state.team.names
                return Plan(steps=tuple(Step(id=name) for name in names if name not in judges or len(names) == 1))
            case "finish":
                state.warn([why])
                self._answer.abandon("", f"{lead!r} gave no usable plan")
                return None
            case "fail_fast":
                return Failure(member="", error="planning", message=f"there is no plan: {why}")

    async def _open(self, plan: Plan, ctx: Context) -> Failure | None:
        """Record the plan, let a person approve it where one has to, and bind its steps; return why it can't run."""
        state, options = self.state, self._options
        if self._crew.board is not None and plan.steps and (problems := plan_problems_of(state, plan)):
            return Failure(member="", error="planning", message="; ".join(problems))
        state.versions = versions = PlanVersions(plan, state.team, self._problems_of, self._outer)
        if self._crew.board is not None and plan.steps:
            by = state.team.lead.name if options.is_planned_by_lead else ""
            await versions.announce(by=by, reason=self._repaired)
        if options.confirm and plan.steps and (refused := await self._confirm(versions, ctx)) is not None:
            return refused
        versions.statuses = self._crew.runner.queue.statuses
        await self._crew.set_steps(ctx)
        if plan.steps and (self._crew.board is not None or options.is_led or options.has_one_worker):
            await ctx.emit(self._planned(versions.plan))
        if self._crew.board is not None:
            await versions.set_status("executing")
        return None

    def _problems_of(self, members: PresentMembers, plan: Plan, roster: Roster) -> list[str]:
        """Return every reason why these members can't execute a plan."""
        return plan_problems_of(self.state, plan, roster, members=members)

    async def _confirm(self, versions: PlanVersions, ctx: Context) -> Failure | None:
        """Let a person approve the plan; return the refusal, if it is one."""
        change = await confirm_plan(self.state, versions.plan, ctx)
        if isinstance(change, Failure):
            await versions.set_status("failed", change.message)
            return change
        if change:
            await versions.change(change, "", by_person=True)
        await versions.set_status("confirmed")
        return None

    async def _work_through(self, ctx: Context) -> str:
        """Run the steps; then plan again after failures, decide on what comes next, and take what people changed.

        Returns the place behind which nothing more changes: it is recorded with what follows, so that a resumed run
        takes nothing there. Where the work ended before its last step, it is empty.
        """
        state = self.state
        width, ends = self._options.width_for(state.members), 0
        while True:
            await self._crew.floor.run(width, ctx)
            if state.results.is_over or self._answer.is_abandoned:
                return ""
            if self._crew.board is not None and self._crew.board.lost:
                await self._changes.plan_again(ctx)
            elif not self._changes.decided_enough:
                await self._changes.decide(ctx)
            else:
                ends += 1  # each place is asked for once
                place = own_key("answer" if ends == 1 else f"answer-{ends}")
                if not await self._changes.take(place, ctx):
                    self._changes.show_results()
                    return place

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

    async def _enter(self, life: LifeState, ctx: Context, place: str = "") -> None:
        """Record the state of a team with a lead, and who is in it; `place` is where nothing more changes."""
        if not (self._options.lead_answers and self._crew.board is not None):
            return
        team = self.state.team
        fact = TeamLife(state=life, lead=team.lead.name, members=tuple(team.names), left=tuple(team.left))
        if place:
            await self._outer.emit(fact, key=self._changes.outer_place(place))
        else:
            await ctx.emit(fact)
