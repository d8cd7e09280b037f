"""Runs the phases of a plan as their needs are settled, while the plan may change.

Attempts and decisions run in branches. The loop over finished branches alone changes the plan, in an order that a
resumed run repeats. A phase that fails is tried once more; then the plan is abandoned for one agent. Where the settings
of an expert are wrong, the phase is tried once more only if the lead gives it to another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

from teamwright.agents.contract.agent import Branches, Context
from teamwright.agents.contract.retry import FUTILE, RETRYABLE
from teamwright.errors import ExpressionFailed, InvalidValue
from teamwright.experts.collaboration.change_decision import ChangeDecision, decide_change
from teamwright.experts.collaboration.drafts import ChangeDraft, proposal_in
from teamwright.experts.collaboration.phase_work import PhaseResult, attempt_phase
from teamwright.experts.collaboration.planner import plan_again, split_again, split_phase, undivided
from teamwright.experts.collaboration.state import CollaborationState, PhaseAttempt
from teamwright.experts.collaboration.versions import PlanVersions
from teamwright.strategies.expressions.conditions_and_templates import Condition
from teamwright.strategies.plan.change import PlanChange
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.events.team import StepSkipped, TeamPlanProposed
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Failure, Reply

MOST_ATTEMPTS = 2


class Execution:
    """The execution of one plan. `failed` is the phase for which the plan was abandoned, empty if there is none."""

    def __init__(self, state: CollaborationState, versions: PlanVersions) -> None:
        self.failed = ""
        self._state, self._versions = state, versions
        self._attempts: Counter[str] = Counter()
        self._failures: dict[str, Failure] = {}
        """The last failure of each phase that is tried once more."""
        self._busy: set[str] = set()
        self._held: dict[int, frozenset[str]] = {}
        """The phases that undecided proposals would change, by the number of the proposal; they wait."""
        self._said: list[str] = []
        """What people said since the lead planned last."""
        self._proposals = self._changes = 0
        self._quotable = [proposal_in(Reply.of("user", state.task.text))]
        """The changes in the task and in replies of experts, which are none of the lead where it repeats them."""

    async def run(self, ctx: Context) -> None:
        """Run all phases, also those that people add while the last ones run."""
        while not await self._try_to_complete(ctx):
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

    async def _try_to_complete(self, ctx: Context) -> bool:
        """Record that the plan is completed, if no phase is left that can start; return whether it has ended."""
        while not (self._is_over or self._said or any(self._ready())):
            edits = await self._versions.take_edits(ctx)
            self._said += edits.said
            if edits.key:
                await self._versions.set_status("completed", ctx, key=edits.key)
                return True
        return self._is_over

    @property
    def _is_over(self) -> bool:
        return self._state.is_over or bool(self.failed)

    async def _start_ready(self, branches: Branches, ctx: Context) -> None:
        """Start or skip every phase whose needs are settled; one that is skipped may make others ready."""
        self._plan_again(branches)
        while not self._is_over and any(self._ready()):
            edits = await self._versions.take_edits(ctx)
            self._said += edits.said
            self._plan_again(branches)
            if not edits.key:
                continue
            key: str | None = edits.key
            for phase in sorted(self._ready(), key=lambda phase: -phase.priority):
                if not self.failed:
                    await self._start(phase, branches, ctx, key)
                key = None

    def _plan_again(self, branches: Branches) -> None:
        """Let the lead change the plan for what people said; phases that have not started wait for that."""
        for text in () if self._is_over else self._said:
            self._changes = number = self._changes + 1
            plan = self._versions.plan
            self._held[number] = frozenset(phase.id for phase in plan.steps if phase.is_open)
            branches.start(f"change/{number}", partial(plan_again, self._state, plan, text, number))
        self._said.clear()

    def _ready(self) -> Iterator[Step]:
        settled, waiting = self._settled, self._busy.union(*self._held.values())
        for phase in self._versions.plan.steps:
            if phase.is_open and phase.id not in waiting and settled.issuperset(phase.needs):
                yield phase

    @property
    def _settled(self) -> set[str]:
        """The phases that are over, so that those which need them may start."""
        return {phase.id for phase in self._versions.plan.steps if phase.is_settled}

    async def _start(self, phase: Step, branches: Branches, ctx: Context, key: str | None) -> None:
        """Start or skip a phase; `key` is that of the first fact about it."""
        try:
            skipped = self._skip_reason(phase)
        except ExpressionFailed as error:
            failure = Failure(member=phase.id, error=error.kind, message=str(error))
            await self._abandon(phase.id, failure, ctx, key)
            return
        self._busy.add(phase.id)
        if skipped is not None:
            await self._versions.set_phase(phase.id, "skipped", ctx, key=key)
            because = phase.needs if skipped == "needs" else ()
            await ctx.emit(StepSkipped(step=phase.id, reason=skipped, because=because))
        elif phase.parallel == "subtask_parallel" and not phase.parts:
            await self._versions.set_phase(phase.id, "pending", ctx, key=key)
            branches.start(f"split/{phase.id}", partial(split_phase, self._state, self._versions.plan, phase))
        else:
            await self._attempt(phase, branches, ctx, key)

    def _skip_reason(self, phase: Step) -> Literal["needs", "condition"] | None:
        if phase.needs and not any(need in self._state.results for need in phase.needs):
            return "needs"
        if phase.when is not None and not Condition(phase.when).holds(self._state.variables(phase, full=True)):
            return "condition"
        return None

    async def _attempt(self, phase: Step, branches: Branches, ctx: Context, key: str | None = None) -> None:
        """Start the next attempt at a phase."""
        self._attempts[phase.id] += 1
        number, plan = self._attempts[phase.id], self._versions.plan
        await self._versions.set_phase(phase.id, "in_progress", ctx, number, key)
        failure = self._failures.get(phase.id)
        may_retry = failure is None or failure.error not in RETRYABLE
        position = 1 + [one.id for one in plan.steps].index(phase.id)
        attempt = PhaseAttempt(self._state, phase, number, position, may_retry)
        branches.start(phase.id if number == 1 else f"retry/{phase.id}", partial(attempt_phase, attempt))

    async def _settle(self, result: PhaseResult, branches: Branches, ctx: Context) -> None:
        """Note how an attempt ended, and what follows."""
        state, id_, ending = self._state, result.phase, result.ending
        if state.has_ended:
            return
        if isinstance(ending, Reply):
            state.results[id_] = ending
            await self._versions.set_phase(id_, "completed", ctx, result.attempt)
            await self._read_proposals(result, branches, ctx)
        elif ending.optional:
            state.warn(ending.skipped)
            await self._versions.set_phase(id_, "skipped", ctx, result.attempt)
        elif result.attempt < MOST_ATTEMPTS and not self._is_over:
            self._failures[id_] = ending
            if ending.error in FUTILE:
                state.warn([f"{ending.asked!r} failed at the phase {id_!r} ({ending.error}: {ending.message})"])
            await self._versions.set_phase(id_, "failed", ctx, result.attempt)
            await self._versions.set_phase(id_, "pending", ctx, result.attempt + 1)
            await self._versions.reassign_left(ctx)
            plan = self._versions.plan
            branches.start(f"split-again/{id_}", partial(split_again, state, plan, plan.by_id[id_], ending))
        else:
            await self._abandon(id_, ending, ctx)

    async def _abandon(self, phase: str, failure: Failure, ctx: Context, key: str | None = None) -> None:
        """Note that a phase failed for good; unless the budget is the reason, the plan falls back to one agent."""
        await self._versions.set_phase(phase, "failed", ctx, max(1, self._attempts[phase]), key)
        self._state.warn([f"the phase {phase!r} failed ({failure.error}: {failure.message})"])
        if not self._is_over:
            self.failed = phase
            await self._versions.set_status("fallback", ctx, f"the phase {phase!r} failed")

    async def _read_proposals(self, result: PhaseResult, branches: Branches, ctx: Context) -> None:
        """Start a decision on each change of the plan that the replies of a phase propose."""
        state = self._state
        for reply in state.replies_of(result.phase, result.attempt):
            draft, by = proposal_in(reply), reply.full.messages[-1].name if reply.full.messages else ""
            if draft is None or by not in (*state.team.members, state.team.lead):
                continue
            if by == state.team.lead:
                if draft in self._quotable:  # the words of another, over which the lead decides as a proposal
                    continue
            else:
                self._quotable.append(draft)
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
            change = draft.change(self._versions.plan, self._state.team)
        except InvalidValue as error:
            await ctx.emit(TeamPlanProposed(by=by, to=lead, reason=f"it can't be used: {error}"))
            return
        self._changes = number = self._changes + 1
        self._held[number] = frozenset((*(phase.id for phase in change.put), *change.remove))
        branches.start(f"change/{number}", partial(self._decide, number, change, by))

    async def _decide(self, number: int, change: PlanChange, by: str, ctx: Context) -> ChangeDecision:
        return replace(await decide_change(self._state, self._versions.plan, change, by, ctx), number=number)

    async def _decided(self, decision: ChangeDecision, branches: Branches, ctx: Context) -> None:
        """Apply what was decided about a change, if the plan still allows it, and start the phase that waits for it."""
        change = decision.change
        late = self._versions.change_problems(change) if change is not None else []
        self._held.pop(decision.number, None)
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
            await self._versions.change(decision, ctx)
        phase = self._versions.plan.by_id.get(decision.phase)
        if phase is None or not phase.is_open or self._is_over:
            return
        if phase.parallel == "subtask_parallel" and not phase.parts:  # what was decided is impossible by now
            await self._versions.change(undivided(self._state, phase), ctx)
            phase = self._versions.plan.by_id[phase.id]
        failure = self._failures.get(phase.id)
        if failure is not None and failure.error in FUTILE and failure.asked in phase.experts:
            await self._abandon(phase.id, failure, ctx)
        elif self._settled.issuperset(phase.needs):
            await self._attempt(phase, branches, ctx)
        else:  # it waits for a phase that the change put before it
            self._busy.discard(phase.id)
