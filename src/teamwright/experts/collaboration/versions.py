"""The versions of a running plan: what changes it, records it and announces it, and what people edit meanwhile.

Only the loop over finished branches uses it, so that a resumed run makes the same versions in the same order.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from pydantic import ValidationError

from teamwright.agents.contract.agent import AppliedChange, Context
from teamwright.experts.collaboration.change_decision import ChangeDecision
from teamwright.experts.collaboration.state import CollaborationState
from teamwright.strategies.plan.change import (
    PlanChange,
    affected_experts,
    apply_change,
    change_between,
    change_problems,
    edit_between,
    without_expert,
)
from teamwright.strategies.plan.difference import plan_difference
from teamwright.strategies.plan.plan_check import plan_problems
from teamwright.strategies.plan.present_members import LiveMembers
from teamwright.values.events.team import TeamLife, TeamPhase, TeamPlanChanged, TeamPlanStatus
from teamwright.values.people import AddMember, EditPlan, RemoveMember, Tell
from teamwright.values.specs.plan import Plan, PlanStatus, Roster, StepStatus
from teamwright.values.text.validation_messages import reasons_of


class PlanEdits(NamedTuple):
    """What people did: `key` is that of the next fact about the plan, empty if something changed or was said."""

    key: str
    said: tuple[str, ...] = ()


class PlanVersions:
    """The present plan and the versions before it."""

    def __init__(self, state: CollaborationState, plan: Plan) -> None:
        self.plan = state.plan = plan
        self._state = state
        self._by_number = {plan.version: plan}
        self._places = 0
        self._present = LiveMembers(state.members)

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
        self, phase: str, status: StepStatus, ctx: Context, attempt: int = 1, key: str | None = None
    ) -> None:
        """Note how far a phase is."""
        self._set(self.plan.with_status(phase, status))
        now = self.plan.by_id[phase]
        members = now.experts or now.workers(self._state.team) if status == "in_progress" else ()
        await ctx.emit(TeamPhase(phase=phase, status=status, attempt=attempt, members=members), key=key)

    async def take_edits(self, ctx: Context) -> PlanEdits:
        """Apply what people edited, and return what they said besides.

        The next fact about the plan is what a resumed run recognises: nothing sent later takes effect before it.
        """
        self._places += 1
        place, versions = f"plan/{self._places}", list[TeamPlanChanged]()
        lead = self._state.team.lead
        done = await ctx.changes(before=place, apply=partial(self._apply, versions), messages=True)
        for number, fact in enumerate(versions, start=1):
            await ctx.emit(fact, key=place if number == 1 else f"{place}-{number}")
        if any(isinstance(one.change, AddMember | RemoveMember) for one in done):
            await self._announce_members(lead, ctx)
        said = tuple(one.change.text for one in done if isinstance(one.change, Tell))
        return PlanEdits("" if done else place, said)

    async def _announce_members(self, lead: str, ctx: Context) -> None:
        """Record who is in the team now, and who has left."""
        team = self._state.team
        reason = f"{team.lead} leads now" if team.lead != lead else "the members changed"
        left = tuple(self._present.left)
        await ctx.emit(TeamLife(state="executing", lead=team.lead, members=team.members, left=left, reason=reason))

    def _apply(self, versions: list[TeamPlanChanged], applied: AppliedChange) -> str | None:
        """Make the version that a person wants, or return why that is impossible now."""
        edit = applied.change
        if isinstance(edit, Tell):
            return None
        if not isinstance(edit, EditPlan):
            return self._change_members(applied, versions)
        change = self._edit(edit)
        if isinstance(change, str):
            return change
        if problems := self.change_problems(change):
            return "; ".join(problems)
        reason = f"edited by {edit.by}" if edit.by else ""
        versions.append(self._next_version(ChangeDecision("", change, to="", by_person=True, reason=reason)))
        return None

    def _change_members(self, applied: AppliedChange, versions: list[TeamPlanChanged]) -> str | None:
        """Let an expert join or leave, or return why that is impossible now.

        The lead takes over the open phases of one who leaves; the first of those who remain succeeds a lead.
        """
        state, present, change = self._state, self._present, applied.change
        if (problem := present.problem(change)) is not None:
            return problem
        reassigned = None
        if isinstance(change, RemoveMember):
            reassigned = self._without(change.member)
            if isinstance(reassigned, str):
                return reassigned
        present.apply(applied)
        lead = state.team.lead
        state.set_members(present, present.names[0] if lead in present.left else lead)
        if reassigned:
            versions.append(self._next_version(ChangeDecision("", reassigned, to="", reason=reassigned.reason)))
        return None

    def _without(self, leaver: str) -> PlanChange | str:
        """Return the change of the plan when an expert leaves, or why it can't."""
        team = self._state.team
        names = tuple(name for name in self._present.names if name != leaver)
        lead = names[0] if leaver == team.lead else team.lead
        after = without_expert(self.plan, leaver, lead if lead in names else names[0])
        problems = plan_problems(after, Roster(names, lead, team.helpers))
        return "; ".join(problems) or change_between(self.plan, after, f"{leaver} has left")

    async def reassign_left(self, ctx: Context) -> None:
        """Give the phases of experts who have left to another; a phase that they had begun may be tried again."""
        team, plan = self._state.team, self.plan
        for name in self._present.left:
            plan = without_expert(plan, name, team.lead if team.lead in team.members else team.members[0])
        if change := change_between(self.plan, plan, "experts have left"):
            await self.change(ChangeDecision("", change, to="", reason=change.reason), ctx)

    def _edit(self, edit: EditPlan) -> PlanChange | str:
        """Return what a person changed in the version of the plan that it saw, or why the edit can't be read."""
        try:
            after = Plan.model_validate(edit.plan)
        except ValidationError as error:
            return "; ".join(reasons_of(error, edit.plan, Plan))
        seen = self._by_number.get(after.version)
        return f"the plan has no version {after.version}" if seen is None else edit_between(seen, after, self.plan)

    def _set(self, plan: Plan) -> None:
        self.plan = self._state.plan = plan
