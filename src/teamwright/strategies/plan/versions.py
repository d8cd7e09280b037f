"""The versions of a running plan, whose changes are numbered, recorded and announced, and its members then and now.

Only the loop over steps changes the plan, so that a resumed run changes it in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import cast

from pydantic import JsonValue, ValidationError

from teamwright.agents.agent import Agent, AppliedChange, Context
from teamwright.errors import nearest
from teamwright.strategies.plan.bound_roles import bind_roles
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.plan_change import (
    PlanChange,
    PlanCheck,
    affected_experts,
    apply_change,
    change_between,
    change_problems,
    edit_between,
    is_change,
    plan_difference,
    without_expert,
)
from teamwright.strategies.plan.steps.step_options import plan_flaws, template_flaws
from teamwright.strategies.protocol import Members
from teamwright.values.events.team import TeamLife, TeamPlanChanged, TeamPlanStatus
from teamwright.values.people import AddMember, EditPlan, RemoveMember, RestorePlan, StopStep, TeamChange, Tell
from teamwright.values.specs.plan import Plan, PlanStatus, Roster, Step, StepStatus
from teamwright.values.text.display import name_text
from teamwright.values.text.validation_messages import reasons_of


class PresentMembers(Sequence[Agent]):
    """The present members in order, their lead, and the names of those who left. At least one stays.

    Who left stays known, for work that it has begun.
    """

    def __init__(self, members: Members, options: PlanOptions) -> None:
        self._present: list[Agent] = list(members)
        self._options = options
        self._lead = options.lead_of(members) if options.is_led else None
        self.left: list[str] = []
        self.everyone = members
        """The present members, with the helpers of the team and those who left."""

    def copy(self) -> PresentMembers:
        """Return the same members, to be changed on trial."""
        found = PresentMembers(self.everyone, self._options)
        found._present, found._lead, found.left = list(self._present), self._lead, list(self.left)
        return found

    @property
    def names(self) -> list[str]:
        """The names of the present members."""
        return [member.name for member in self._present]

    @property
    def lead(self) -> Agent:
        """The lead; of a team without one, its first member."""
        return self._lead or self._present[0]

    @property
    def roster(self) -> Roster:
        """The names of the team."""
        names = tuple(self.names)
        no_helpers = {*names, *self.left}
        helpers = tuple(name for name in self.everyone.names if name not in no_helpers)
        return Roster(names, self.lead.name, helpers)

    @property
    def present(self) -> Members:
        """The present members and the helpers, without those who left."""
        return Members(self._present, [self.everyone.named(name) for name in (*self.roster.helpers, self.lead.name)])

    @property
    def declared_roles(self) -> Collection[str]:
        """The names of the roles that are declared."""
        return self._options.roles

    @property
    def finisher(self) -> Agent:
        """The agent that finishes the task where the plan fails: the one that is named, unless it left, or the lead."""
        name = self._options.ladder.finish if self._options.ladder is not None else True
        return self.named(name) if isinstance(name, str) and name not in self.left else self.lead

    def without(self, leaver: str) -> Roster:
        """Return the names of the team without a member; another one succeeds a lead who leaves.

        That is the first of those who remain, but rather none who judges the work of the team.
        """
        team, judges = self.roster, () if self._lead is None else self._judges
        names = tuple(name for name in team.members if name != leaver)
        heir = next((name for name in names if name not in judges), names[0])
        return Roster(names, heir if leaver == team.lead else team.lead, team.helpers)

    def successor(self, team: Roster, step: Step) -> str:
        """Return who of a team takes over a step: the lead, or else the first that neither judges nor decides on it."""
        others = [*([team.lead] if team.lead in team.members else ()), *team.members]
        barred = {*self._judges} if step.evaluate is None else {*step.evaluate.judges}
        barred |= {team.lead} if self._options.decides else set()
        return next((name for name in others if name not in barred), others[0])

    @property
    def _judges(self) -> tuple[str, ...]:
        """The names of those who judge the work of the team."""
        return () if self._options.evaluate is None else self._options.evaluate.judges

    def named(self, name: str) -> Agent:
        """Return the member or helper with this name, also one that has left."""
        return self.everyone.named(name)

    def apply(self, applied: AppliedChange) -> None:
        """Add or remove a member, which must be possible. One of those who remain succeeds a lead who leaves."""
        change = applied.change
        if isinstance(change, AddMember):
            self._present.append(cast("Agent", applied.agent))
        elif isinstance(change, RemoveMember):
            lead = self.without(change.member).lead
            self._present = [one for one in self._present if one.name != change.member]
            self.left.append(change.member)
            if self._lead is not None:
                self._lead = self.named(lead)
        known = self.everyone
        self.everyone = Members(self._present, [known.named(name) for name in known.names])

    def problem(self, change: TeamChange | Tell) -> str | None:
        """Return why a member can't be added or removed now, if it is so."""
        names = self.names
        match change:
            case AddMember(member=name) if name in names:
                return f"there is already a member {name!r}; choose another name"
            case AddMember(member=name) if name in self.left:
                return f"{name!r} has left, and its work keeps the name; choose another one"
            case AddMember(member=name) if name in self.everyone.names:
                return f"{name!r} is the name of an agent that leads, judges or helps this team; choose another one"
            case RemoveMember(member=name) if name not in names and name in self.roster.helpers:
                return f"{name!r} is no member of the team: it leads, judges or helps, and stays"
            case RemoveMember(member=name) if name not in names:
                return f"there is no member {name!r}; {nearest(name, names).rstrip('.')}"
            case RemoveMember(member=name) if len(names) == 1:
                return f"{name!r} is the last member"
            case RemoveMember(member=name):
                return self._needs(name)
            case _:
                return None

    def _needs(self, leaver: str) -> str | None:
        """Return what the team needs a member for that wants to leave, besides its steps."""
        options = self._options
        if leaver in self._judges:
            return f"{leaver!r} judges the work of the team, and stays"
        if leaver == self.lead.name and options.lead_answers:
            if options.decides:
                return f"{leaver!r} decides between what the others propose, and stays"
            if (heir := self.without(leaver).lead) in self._judges:
                return f"{heir!r} would lead, and judge its own answer; add a member first, who leads then"
        pool = options.pool if isinstance(options.pool, tuple) else ()
        if leaver in pool and not any(name in pool for name in self.names if name != leaver):
            return f"{leaver!r} is the last of the pool"
        if options.steps and options.decide == "ahead":
            return None
        remaining = Members([one for one in self._present if one.name != leaver])
        for name, role in options.roles.items():
            if bind_roles([Step(id=name, role=name)], {name: role}, remaining).problems:
                return f"no other member can have the role {name!r}"
        return None

    def __getitem__(self, index: int) -> Agent:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices
        return self._present[index]

    def __len__(self) -> int:
        return len(self._present)


STOPPABLE = ("pending", "in_progress")
MOST_NAMED = 10
LEFT = "the plan was left, and one agent finishes the task"
NO_PLAN = "it is no plan: write an object with  steps, or a change of the plan with  put  and  remove"


TeamCheck = Callable[[PresentMembers, Plan, Roster], list[str]]
"""Returns every mistake in a plan of these members, as sentences."""


class PlanVersions:
    """The present plan, the versions before it, and what its members read about changes."""

    def __init__(self, plan: Plan, team: PresentMembers, check: TeamCheck, ctx: Context) -> None:
        """Record in `ctx`, in which people find the plan: outside of its time limit."""
        self._plan, self._team, self._problems_of, self._ctx = plan, team, check, ctx
        self._check: PlanCheck = partial(check, team)
        self.statuses: Callable[[], Mapping[str, StepStatus]] | None = None
        """Returns how far each step is that has started; without it none has."""
        self._by_number = {plan.version: plan}
        self._lead = team.lead.name
        """The lead that was announced last."""
        self._unannounced: list[TeamPlanChanged] = []
        self.retired: set[str] = set()
        """Steps that began, failed and were planned again: another one can't have their ids."""
        self.stopped: set[str] = set()
        """Steps that people have stopped; some may not have ended yet."""
        self.notices: dict[str, list[str]] = {}
        """What members read about changes of the plan, by their names."""

    @property
    def plan(self) -> Plan:
        """The present plan, with the status of each step."""
        if self.statuses is None:
            return self._plan
        now, steps = self.statuses(), list(self._plan.steps)
        for place, step in enumerate(steps):
            if step.status != (status := now.get(step.id, "pending")):
                steps[place] = step.model_copy(update={"status": status})
        return self._plan.model_copy(update={"steps": tuple(steps)})

    @property
    def status(self) -> PlanStatus:
        """How far the plan is; unlike `plan` it copies no step."""
        return self._plan.status

    async def announce(self, *, by: str, reason: str = "") -> None:
        """Record the first version of the plan."""
        lines = plan_difference(None, self.plan).lines
        await self._ctx.emit(
            TeamPlanChanged(
                plan_version=self._plan.version,
                plan=self.plan.to_json(),
                lead=self._team.lead.name,
                by=by,
                difference=lines,
                reason=reason,
            )
        )

    async def set_status(self, status: PlanStatus, reason: str = "") -> None:
        """Note how far the plan is."""
        self._plan = self._plan.model_copy(update={"status": status})
        await self._ctx.emit(TeamPlanStatus(status=status, plan_version=self._plan.version, reason=reason))

    def problems(self, change: PlanChange) -> list[str]:
        """Return every reason why the present plan can't be changed so."""
        used = [step.id for step in change.put if step.id in self.retired]
        if used:
            return [f"the step {name_text(id_)} failed and was planned again; choose another id" for id_ in used]
        return change_problems(self.plan, change, self._team.roster, self._check)

    async def change(self, change: PlanChange, by: str, *, by_person: bool = False, told: bool = True) -> None:
        """Make the next version, announce it to those that it affects unless they need not know, and record it."""
        await self._ctx.emit(self._next_version(change, by, by_person=by_person, told=told))

    def _next_version(
        self, change: PlanChange, by: str, *, by_person: bool, told: bool = True, order: Plan | None = None
    ) -> TeamPlanChanged:
        """Make the next version; what has not begun comes in the order of another plan, if that is given."""
        before, team = self.plan, self._team.roster
        after = apply_change(before, change, by_person=by_person)
        if order is not None:
            places = {step.id: place for place, step in enumerate(order.steps)}
            steps = sorted(after.steps, key=lambda step: places.get(step.id, -1) if step.is_open else -1)
            after = after.model_copy(update={"steps": tuple(steps)})
        self._plan = after
        self._by_number[after.version] = after
        lines, affected = plan_difference(before, after).lines, affected_experts(before, after, team) if told else ()
        text = "\n".join((f"The plan changed (version {after.version}):", *lines))
        for name in affected:
            self.notices.setdefault(name, []).append(text)
        return TeamPlanChanged(
            plan_version=after.version,
            plan=after.to_json(),
            lead=team.lead,
            by="" if by_person else by,
            difference=lines,
            to=affected,
            reason=change.reason,
        )

    async def announce_edits(self, done: Sequence[AppliedChange]) -> list[str]:
        """Announce what people changed and `apply` has carried out; return what they said to the team or its lead."""
        versions, self._unannounced = self._unannounced, []
        for fact in versions:
            await self._ctx.emit(fact)
        if any(isinstance(one.change, AddMember | RemoveMember) for one in done):
            await self._announce_members()
        return [one.change.text for one in done if isinstance(one.change, Tell)]

    def problem(self, change: TeamChange, waiting: Sequence[AppliedChange] = ()) -> str | None:
        """Return why a change of people can't be made after those that wait, before it is acknowledged, if it is so."""
        return (self._after(waiting) if waiting else self)._problem(change)

    def _after(self, waiting: Sequence[AppliedChange]) -> PlanVersions:
        """Return the versions as they will be after changes that wait; what becomes impossible has no effect."""
        after = PlanVersions(self._plan, self._team.copy(), self._problems_of, self._ctx)
        after.statuses, after.retired, after._by_number = self.statuses, self.retired, dict(self._by_number)
        for one in waiting:
            after.apply(one)
        return after

    def _problem(self, change: TeamChange) -> str | None:
        match change:
            case EditPlan() | RestorePlan() if self._plan.status == "fallback":
                return f"the plan changes no more: {LEFT}"
            case EditPlan() | RestorePlan():
                found = self._edit(change) if isinstance(change, EditPlan) else self._restored(change.plan_version)
                return found if isinstance(found, str) else "; ".join(self.problems(found)) or None
            case StopStep(step=step):
                return self._stop_problem(step)
            case AddMember():
                return self._team.problem(change)
            case RemoveMember(member=name):
                problem = self._team.problem(change)
                if problem is not None:
                    return problem
                without = self._without(name)
                return without if isinstance(without, str) else None

    def _stop_problem(self, id_: str) -> str | None:
        """Return why a step can't be stopped: there is none of this id, or it has ended."""
        steps = self.plan.by_id
        if id_ not in steps:
            return f"there is no step {name_text(id_)}; {nearest(id_, steps).rstrip('.')}"
        if id_ in self.stopped:
            return f"the step {name_text(id_)} is stopped already"
        if steps[id_].is_open and self._plan.status == "fallback":
            return f"the step {name_text(id_)} does not begin any more: {LEFT}"
        if steps[id_].status in STOPPABLE:
            return None
        left = [name_text(step.id) for step in steps.values() if step.status in STOPPABLE]
        hint = f"you can stop {', '.join(left[:MOST_NAMED])}" if left else "no step is left that could be stopped"
        return f"the step {name_text(id_)} is {steps[id_].status} already; {hint}"

    async def _announce_members(self) -> None:
        """Record who is in the team now, and who has left."""
        team = self._team.roster
        reason = f"{team.lead} leads now" if team.lead != self._lead else "the members changed"
        self._lead = team.lead
        left = tuple(self._team.left)
        await self._ctx.emit(
            TeamLife(state="executing", lead=team.lead, members=team.members, left=left, reason=reason)
        )

    def apply(self, applied: AppliedChange) -> str | None:
        """Make the version that a person wants, or return why that is impossible now."""
        edit = applied.change
        if isinstance(edit, Tell):
            return None
        if not isinstance(edit, EditPlan | RestorePlan):
            return self._change_members(applied)
        earlier = self._by_number.get(edit.plan_version) if isinstance(edit, RestorePlan) else None
        change = self._edit(edit) if isinstance(edit, EditPlan) else self._restored(edit.plan_version)
        if isinstance(change, str):
            return change
        if problems := self.problems(change):
            return "; ".join(problems)
        by = f" by {edit.by}" if edit.by else ""
        reason = f"{change.reason}{by}" if earlier is not None else change.reason or (f"edited{by}" if by else "")
        told = change.model_copy(update={"reason": reason})
        self._unannounced.append(self._next_version(told, "", by_person=True, order=earlier))
        return None

    def _change_members(self, applied: AppliedChange) -> str | None:
        """Let a member join or leave, or return why that is impossible now. Others take over the steps of a leaver."""
        change, reassigned = applied.change, None
        if (problem := self._team.problem(change)) is not None:
            return problem
        if isinstance(change, RemoveMember):
            reassigned = self._without(change.member)
            if isinstance(reassigned, str):
                return reassigned
        self._team.apply(applied)
        if reassigned:
            self._unannounced.append(self._next_version(reassigned, "", by_person=False))
        return None

    def _without(self, leaver: str) -> PlanChange | str:
        """Return the change of the plan when a member leaves, or why it can't, with what would help."""
        team = self._team.without(leaver)
        after = without_expert(self.plan, leaver, partial(self._team.successor, team), self._team.declared_roles)
        problems = self._check(after, team)
        if problems:
            return f"{'; '.join(problems)}; edit the plan first, so that {leaver!r} is not needed"
        return change_between(self.plan, after, f"{leaver} has left")

    async def reassign_left(self) -> None:
        """Give open steps of members who have left to others; a step that they had begun may be tried again."""
        plan, successor = self.plan, partial(self._team.successor, self._team.roster)
        for name in self._team.left:
            plan = without_expert(plan, name, successor, self._team.declared_roles)
        if change := change_between(self.plan, plan, "members have left"):
            await self.change(change, "")

    def _restored(self, version: int) -> PlanChange | str:
        """Return what makes the plan as it was in a version, or why it can't be; what has begun stays as it is."""
        present, earlier = self.plan, self._by_number.get(version)
        if earlier is None:
            return f"the plan has no version {version}; it has 1 to {present.version}"
        if version == present.version:
            return f"the plan has its version {version} now"
        if gone := [name_text(step.id) for step in earlier.steps if step.id in self.retired]:
            return (
                f"version {version} has what failed and was planned again ({', '.join(gone)}); send the steps that you"
                " want as an edit, under other ids"
            )
        begun = {step.id: step for step in present.steps if not step.is_open}
        kept = [begun.pop(step.id, step) for step in earlier.steps]
        after = earlier.model_copy(update={"steps": (*begun.values(), *kept)})
        if change := change_between(present, after, f"version {version} restored"):
            return change
        return f"the plan is as in its version {version} already, as far as what has begun allows"

    def _edit(self, edit: EditPlan) -> PlanChange | str:
        """Return what a person changed in the version of the plan that it saw, or why the edit can't be read.

        A change is taken as well as a whole plan. A plan that names no version is one for the present.
        """
        found = read_edit(edit.plan)
        if isinstance(found, PlanChange):
            known = self._plan.variables
            new = {name: value for name, value in found.variables.items() if value is not None or name in known}
            return found.model_copy(update={"variables": new})
        if not isinstance(found, Plan):
            return found
        seen = self._by_number.get(found.version) if "version" in found.model_fields_set else self.plan
        return f"the plan has no version {found.version}" if seen is None else edit_between(seen, found, self.plan)


def read_edit(data: JsonValue) -> Plan | PlanChange | str:
    """Return the plan, or the change of one, that a person sent, or why it is neither."""
    if not isinstance(data, dict):
        return NO_PLAN
    form = PlanChange if is_change(data) else Plan
    try:
        return form.model_validate(data)
    except ValidationError as error:
        return "; ".join(reasons_of(error, data, form))


def edit_problem(change: TeamChange) -> str | None:
    """Return why no plan can be changed so, whatever its state; None if one can."""
    if not isinstance(change, EditPlan):
        return None
    found = read_edit(change.plan)
    if isinstance(found, str):
        return found
    if isinstance(found, Plan):
        flaws = [*plan_flaws(found.steps), *template_flaws(found.steps)]
    elif found:
        ids = {step.id for step in found.put}  # what they need besides may be in the plan
        own = [step.model_copy(update={"needs": tuple(filter(ids.__contains__, step.needs))}) for step in found.put]
        flaws = [*plan_flaws(own)]
    else:
        return "the change changes nothing"
    return "; ".join(flaw.text for flaw in flaws if not flaw.is_warning) or None


def open_steps(steps: Sequence[Step]) -> frozenset[str]:
    """Return the steps that have not started."""
    return frozenset(step.id for step in steps if step.is_open)
