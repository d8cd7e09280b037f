"""The versions of a running plan: what changes it, records it and announces it, and what people edit meanwhile.

Only the loop over finished branches uses it, so that a resumed run makes the same versions in the same order.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

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
from teamwright.values.events.plan import TeamPhase, TeamPlanChanged, TeamPlanStatus
from teamwright.values.people.interventions import EditPlan, Tell
from teamwright.values.text.validation_messages import reasons_of


class PlanEdits(NamedTuple):
    """What people did: `key` is that of the next fact about the plan, empty if something changed or was said."""

    key: str
    said: tuple[str, ...] = ()


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

    async def change(self, decision: ChangeDecision, ctx: Context) -> None:
        """Make the next version, announce it to those that it affects, and record it."""
        await ctx.emit(self._next_version(decision))

    def _next_version(self, decision: ChangeDecision) -> TeamPlanChanged:
        assert decision.change is not None
        before, team = self.plan, self._state.team
        after = apply_change(before, decision.change, by_person=decision.by_person)
        self._set(after)
        self._by_number[after.version] = after
        lines, affected = plan_difference(before, after).lines, affected_experts(before, after, team)
        self._state.announce(affected, "\n".join((f"The plan changed (version {after.version}):", *lines)))
        return TeamPlanChanged(
            plan_version=after.version,
            plan=after.to_json(),
            lead=team.lead,
            by="" if decision.by_person else decision.by,
            difference=lines,
            to=affected,
            reason=decision.reason,
        )

    async def set_status(self, status: PlanStatus, ctx: Context, reason: str = "", key: str | None = None) -> None:
        """Note how far the plan is."""
        self._set(self.plan.model_copy(update={"status": status}))
        await ctx.emit(TeamPlanStatus(status=status, plan_version=self.plan.version, reason=reason), key=key)

    async def set_phase(
        self, phase: str, status: PhaseStatus, ctx: Context, attempt: int = 1, key: str | None = None
    ) -> None:
        """Note how far a phase is."""
        self._set(self.plan.with_status(phase, status))
        now = self.plan.phases[phase]
        members = now.experts or now.workers(self._state.team) if status == "in_progress" else ()
        await ctx.emit(TeamPhase(phase=phase, status=status, attempt=attempt, members=members), key=key)

    async def take_edits(self, ctx: Context) -> PlanEdits:
        """Apply what people edited, and return what they said besides.

        The next fact about the plan is what a resumed run recognises: nothing sent later takes effect before it.
        """
        self._places += 1
        place, versions = f"plan/{self._places}", list[TeamPlanChanged]()
        done = await ctx.changes(before=place, apply=partial(self._apply, versions), messages=True)
        for number, fact in enumerate(versions, start=1):
            await ctx.emit(fact, key=place if number == 1 else f"{place}-{number}")
        said = tuple(one.change.text for one in done if isinstance(one.change, Tell))
        return PlanEdits("" if done else place, said)

    def _apply(self, versions: list[TeamPlanChanged], applied: AppliedChange) -> str | None:
        """Make the version that a person wants, or return why that is impossible now."""
        edit = applied.change
        if isinstance(edit, Tell):
            return None
        if not isinstance(edit, EditPlan):
            return "a team that collaborates keeps its members"
        change = self._edit(edit)
        if isinstance(change, str):
            return change
        if problems := self.change_problems(change):
            return "; ".join(problems)
        reason = f"edited by {edit.by}" if edit.by else ""
        versions.append(self._next_version(ChangeDecision("", change, to="", by_person=True, reason=reason)))
        return None

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
