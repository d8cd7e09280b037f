"""Runs the phases of a plan as their needs are settled, while the plan may change.

Attempts and decisions run in branches. The loop over finished branches alone changes the plan, in an order that a
resumed run repeats. A phase that fails is tried once more; then the plan is abandoned for one agent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Literal

from teamwright.agents.contract.context import Branches, Context
from teamwright.errors import ExpressionFailed, InvalidValue
from teamwright.experts.collaboration.change import affected_experts, apply_change, change_problems
from teamwright.experts.collaboration.change_decision import ChangeDecision, decide_change
from teamwright.experts.collaboration.difference import plan_difference
from teamwright.experts.collaboration.drafts import ChangeDraft, proposal_in
from teamwright.experts.collaboration.phase_attempt import PhaseAttempt
from teamwright.experts.collaboration.phase_work import PhaseResult, attempt_phase
from teamwright.experts.collaboration.plan import CollaborationPlan, Phase, PhaseStatus, PlanStatus
from teamwright.experts.collaboration.planner import split_again, split_phase
from teamwright.experts.collaboration.state import CollaborationState
from teamwright.strategies.expressions.condition import Condition
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.strategies.talk import is_unaffordable
from teamwright.values.events.plan import TeamPhase, TeamPlanChanged, TeamPlanProposed, TeamPlanStatus
from teamwright.values.events.step import StepSkipped
from teamwright.values.turns.turn import Failure, Reply

MOST_ATTEMPTS = 2


class Execution:
    """The execution of one plan. `failed` is the phase for which the plan was abandoned, empty if there is none."""

    def __init__(self, state: CollaborationState, plan: CollaborationPlan) -> None:
        self.failed = ""
        self.plan = state.plan = plan
        self._state = state
        self._attempts: Counter[str] = Counter()
        self._busy: set[str] = set()
        self._proposals = self._changes = 0

    async def run(self, ctx: Context) -> None:
        """Run all phases; return when none is left that can start."""
        async with ctx.branches(self._state.options.max_parallel) as branches:
            await self._start_ready(branches, ctx)
            async for branch in branches.finished():
                match branch.result():
                    case PhaseResult() as result:
                        await self._settle(result, branches, ctx)
                    case ChangeDecision() as decision:
                        await self._decided(decision, branches, ctx)
                    case _:
                        raise AssertionError(branch.name)
                if self._state.has_ended:
                    branches.cancel()
                await self._start_ready(branches, ctx)

    async def change_plan(self, decision: ChangeDecision, ctx: Context) -> None:
        """Make the next version of the plan, record it, and announce it to those that it affects."""
        assert decision.change is not None
        before, team = self.plan, self._state.team
        after = apply_change(before, decision.change, by_person=decision.by_person)
        self._set_plan(after)
        lines, affected = plan_difference(before, after).lines, affected_experts(before, after, team)
        by = "" if decision.by_person else decision.by
        self._state.announce(affected, "\n".join((f"The plan changed (version {after.version}):", *lines)))
        fact = TeamPlanChanged(
            version=after.version,
            plan=after.to_json(),
            lead=team.lead,
            by=by,
            difference=lines,
            to=affected,
            reason=decision.reason,
        )
        await ctx.emit(fact)

    async def set_status(self, status: PlanStatus, ctx: Context, reason: str = "") -> None:
        """Note how far the plan is."""
        self._set_plan(self.plan.model_copy(update={"status": status}))
        await ctx.emit(TeamPlanStatus(status=status, version=self.plan.version, reason=reason))

    def _set_plan(self, plan: CollaborationPlan) -> None:
        self.plan = self._state.plan = plan

    async def _start_ready(self, branches: Branches, ctx: Context) -> None:
        """Start or skip every phase whose needs are settled; one that is skipped may make others ready."""
        while not (self._state.is_over or self.failed):
            ready = sorted(self._ready(), key=lambda phase: -phase.priority)
            for phase in ready:
                if not self.failed:
                    await self._start(phase, branches, ctx)
            if not ready:
                return

    def _ready(self) -> Iterator[Phase]:
        settled = {phase.id for phase in self.plan.steps if phase.is_settled}
        for phase in self.plan.steps:
            if phase.is_open and phase.id not in self._busy and settled.issuperset(phase.needs):
                yield phase

    async def _start(self, phase: Phase, branches: Branches, ctx: Context) -> None:
        try:
            if reason := self._skip_reason(phase):
                because = phase.needs if reason == "needs" else ()
                await ctx.emit(StepSkipped(step=phase.id, reason=reason, because=because))
                await self._set_phase(phase.id, "skipped", ctx)
                return
        except ExpressionFailed as error:
            await self._abandon(phase.id, Failure(member=phase.id, error=error.kind, message=str(error)), ctx)
            return
        self._busy.add(phase.id)
        if phase.parallel == "subtask_parallel" and not phase.parts:
            branches.start(f"split/{phase.id}", partial(split_phase, self._state, self.plan, phase))
        else:
            await self._attempt(phase, branches, ctx)

    def _skip_reason(self, phase: Phase) -> Literal["needs", "condition"] | None:
        if phase.needs and not any(need in self._state.results for need in phase.needs):
            return "needs"
        if phase.when is not None and not Condition(phase.when).holds(self._state.variables(phase, full=True)):
            return "condition"
        return None

    async def _attempt(self, phase: Phase, branches: Branches, ctx: Context) -> None:
        """Start the next attempt at a phase."""
        self._busy.add(phase.id)
        self._attempts[phase.id] += 1
        number = self._attempts[phase.id]
        await self._set_phase(phase.id, "in_progress", ctx)
        position = 1 + [one.id for one in self.plan.steps].index(phase.id)
        attempt = PhaseAttempt(self._state, self.plan.phases[phase.id], number, position)
        name = phase.id if number == 1 else f"retry/{phase.id}"
        branches.start(name, partial(attempt_phase, attempt))

    async def _set_phase(self, phase: str, status: PhaseStatus, ctx: Context) -> None:
        self._set_plan(self.plan.with_status(phase, status))
        if status != "pending":
            members = self._members_of(self.plan.phases[phase]) if status == "in_progress" else ()
            attempt = max(1, self._attempts[phase])
            await ctx.emit(TeamPhase(phase=phase, status=status, attempt=attempt, members=members))

    def _members_of(self, phase: Phase) -> tuple[str, ...]:
        return phase.experts or phase.workers(self._state.team)

    async def _settle(self, result: PhaseResult, branches: Branches, ctx: Context) -> None:
        """Note how an attempt ended, and what follows."""
        state, id_, ending = self._state, result.phase, result.ending
        if state.has_ended:
            return
        if isinstance(ending, Reply):
            state.results[id_] = ending
            await self._set_phase(id_, "completed", ctx)
            self._busy.discard(id_)
            await self._read_proposals(result, branches, ctx)
        elif ending.optional:
            state.warn(ending.skipped)
            await self._set_phase(id_, "skipped", ctx)
        elif result.attempt < MOST_ATTEMPTS and not (self.failed or state.is_over or is_unaffordable(ending)):
            await self._set_phase(id_, "failed", ctx)
            await self._set_phase(id_, "pending", ctx)
            phase = self.plan.phases[id_]
            branches.start(f"split-again/{id_}", partial(split_again, state, self.plan, phase, ending))
        else:
            await self._abandon(id_, ending, ctx)

    async def _abandon(self, phase: str, failure: Failure, ctx: Context) -> None:
        """Note that a phase failed for good; unless the budget is the reason, the plan falls back to one agent."""
        await self._set_phase(phase, "failed", ctx)
        self._state.warn([f"the phase {phase!r} failed ({failure.error}: {failure.message})"])
        if not (is_unaffordable(failure) or self._state.unpaid or self.failed):
            self.failed = phase
            await self.set_status("fallback", ctx, f"the phase {phase!r} failed")

    async def _read_proposals(self, result: PhaseResult, branches: Branches, ctx: Context) -> None:
        """Start a decision on each change of the plan that the replies of a phase propose."""
        state = self._state
        for reply in state.replies_of(result.phase, result.attempt):
            draft, by = proposal_in(reply), reply.full.messages[-1].name if reply.full.messages else ""
            if draft is None or by not in (*state.team.members, state.team.lead):
                continue
            if by != state.team.lead:
                if self._proposals >= state.options.proposals:
                    continue
                self._proposals += 1
            await self._propose(draft, by, branches, ctx)

    async def _propose(self, draft: ChangeDraft | ParseFailure, by: str, branches: Branches, ctx: Context) -> None:
        lead = self._state.team.lead
        if isinstance(draft, ParseFailure):
            await ctx.emit(TeamPlanProposed(by=by, to=lead, reason=f"it can't be used: {draft.problem}"))
            return
        try:
            change = draft.change(self.plan, self._state.team)
        except InvalidValue as error:
            await ctx.emit(TeamPlanProposed(by=by, to=lead, reason=f"it can't be used: {error}"))
            return
        self._changes += 1
        branches.start(f"change-{self._changes}", partial(decide_change, self._state, self.plan, change, by))

    async def _decided(self, decision: ChangeDecision, branches: Branches, ctx: Context) -> None:
        """Apply what was decided about a change, if the plan still allows it, and start the phase that waits for it."""
        change, team = decision.change, self._state.team
        late = change_problems(self.plan, change, team) if change is not None else []
        if decision.to is not None:
            approved, reason = change is not None and not late, "; ".join(late) or decision.reason
            fact = TeamPlanProposed(
                by=decision.by, to=decision.to, approved=approved, difference=decision.difference, reason=reason
            )
            await ctx.emit(fact)
        if change is not None and not late:
            await self.change_plan(decision, ctx)
        phase = self.plan.phases.get(decision.phase)
        if phase is not None and phase.is_open and not (self._state.is_over or self.failed):
            await self._attempt(phase, branches, ctx)
