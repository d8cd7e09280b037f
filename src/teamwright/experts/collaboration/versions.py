"""The versions of a running plan: what changes it, records it and announces it, and what people edit meanwhile.

Only the loop over finished branches uses it, so that a resumed run makes the same versions in the same order.
"""

from __future__ import annotations

from pydantic import ValidationError

from teamwright.agents.contract.context import AppliedChange, Context
from teamwright.experts.collaboration.change import (
    PlanChange,
    affected_experts,
    apply_change,
    change_between,
    change_problems,
)
from teamwright.experts.collaboration.change_decision import ChangeDecision
from teamwright.experts.collaboration.difference import plan_difference
from teamwright.experts.collaboration.plan import CollaborationPlan, PhaseStatus, PlanStatus
from teamwright.experts.collaboration.state import CollaborationState
from teamwright.values.events.plan import TeamPhase, TeamPlanChanged, TeamPlanProposed, TeamPlanStatus
from teamwright.values.people.interventions import EditPlan, TeamChange, Tell
from teamwright.values.text.validation_messages import reasons_of


class PlanVersions:
    """The present plan and the versions before it."""

    def __init__(self, state: CollaborationState, plan: CollaborationPlan) -> None:
        self.plan = state.plan = plan
        self._state = state
        self._by_number = {plan.version: plan}
        self._places = 0

    def change_problems(self, change: PlanChange) -> list[str]:
        """Return every reason why the present plan can't be changed so."""
        return change_problems(self.plan, change, self._state.team)

    async def change(self, decision: ChangeDecision, ctx: Context, key: str | None = None) -> None:
        """Make the next version, record it, and announce it to those that it affects."""
        assert decision.change is not None
        before, team = self.plan, self._state.team
        after = apply_change(before, decision.change, by_person=decision.by_person)
        self._set(after)
        self._by_number[after.version] = after
        lines, affected = plan_difference(before, after).lines, affected_experts(before, after, team)
        self._state.announce(affected, "\n".join((f"The plan changed (version {after.version}):", *lines)))
        fact = TeamPlanChanged(
            version=after.version,
            plan=after.to_json(),
            lead=team.lead,
            by="" if decision.by_person else decision.by,
            difference=lines,
            to=affected,
            reason=decision.reason,
        )
        await ctx.emit(fact, key=key)

    async def set_status(self, status: PlanStatus, ctx: Context, reason: str = "", key: str | None = None) -> None:
        """Note how far the plan is."""
        self._set(self.plan.model_copy(update={"status": status}))
        await ctx.emit(TeamPlanStatus(status=status, version=self.plan.version, reason=reason), key=key)

    async def set_phase(
        self, phase: str, status: PhaseStatus, ctx: Context, attempt: int = 1, key: str | None = None
    ) -> None:
        """Note how far a phase is."""
        self._set(self.plan.with_status(phase, status))
        now = self.plan.phases[phase]
        members = now.experts or now.workers(self._state.team) if status == "in_progress" else ()
        await ctx.emit(TeamPhase(phase=phase, status=status, attempt=attempt, members=members), key=key)

    async def take_edits(self, ctx: Context) -> str:
        """Apply what people edited; return the key of the next fact about the plan, empty if the plan changed.

        The fact is what a resumed run recognises: nothing that is sent later takes effect before it.
        """
        self._places += 1
        place = f"plan-{self._places}"
        edits = await ctx.changes(before=place, apply=self._refusal)
        for number, edit in enumerate(edits, start=1):
            await self._apply_edit(edit.change, ctx, place if number == 1 else f"{place}-{number}")
        return "" if edits else place

    async def _apply_edit(self, edit: TeamChange | Tell, ctx: Context, key: str) -> None:
        """Apply an edit, unless one that was applied with it leaves no room for it."""
        change = self._edit(edit) if isinstance(edit, EditPlan) else "it is no edit of the plan"
        problem = change if isinstance(change, str) else "; ".join(self.change_problems(change))
        if isinstance(change, str) or problem:
            await ctx.emit(TeamPlanProposed(by=edit.by, reason=problem), key=key)
            return
        reason = f"edited by {edit.by}" if edit.by else ""
        await self.change(ChangeDecision("", change, to="", by_person=True, reason=reason), ctx, key)

    def _refusal(self, applied: AppliedChange) -> str | None:
        """Return why a change of a person can't be made now."""
        change = applied.change
        if not isinstance(change, EditPlan):
            return "a team that collaborates keeps its members"
        edit = self._edit(change)
        return edit if isinstance(edit, str) else "; ".join(self.change_problems(edit)) or None

    def _edit(self, edit: EditPlan) -> PlanChange | str:
        """Return what a person changed in the version of the plan that it saw, or why the edit can't be read."""
        try:
            after = CollaborationPlan.model_validate(edit.plan)
        except ValidationError as error:
            return "; ".join(reasons_of(error, edit.plan, CollaborationPlan))
        seen = self._by_number.get(after.version)
        return f"the plan has no version {after.version}" if seen is None else change_between(seen, after)

    def _set(self, plan: CollaborationPlan) -> None:
        self.plan = self._state.plan = plan
