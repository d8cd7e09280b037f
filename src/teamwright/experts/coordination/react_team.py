"""Who works for a lead that reacts: the members, their roles, and how both change while the team works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teamwright.agents.contract.agent import AppliedChange, Context
from teamwright.experts.coordination.bound_roles import RoleBinding, bind_roles
from teamwright.experts.coordination.options import ReactOptions
from teamwright.experts.coordination.plan_run import SCOPE
from teamwright.experts.coordination.planner import effective_roles
from teamwright.strategies.plan.present_members import LiveMembers
from teamwright.strategies.protocol import Members
from teamwright.values.events.team import TeamLife
from teamwright.values.people import RemoveMember
from teamwright.values.specs.plan import Role, Step


class ReactTeam:
    """The members besides the lead, and the roles that they can have."""

    def __init__(self, options: ReactOptions, workers: Members, ctx: Context) -> None:
        self._options, self._ctx = options, ctx
        self._workers, self._present = workers, LiveMembers(workers)
        self._made: dict[str, Role] = {}
        self._author: dict[str, str] = {}

    @property
    def roles(self) -> dict[str, Role]:
        """The roles: those that are declared, or else one for each member, and those that the lead has made."""
        return {**effective_roles(self._options.roles, self._workers), **self._made}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(self._present.names)

    def bind(self, earlier: Sequence[Step], steps: Sequence[Step], new_roles: Mapping[str, Role]) -> RoleBinding:
        """Bind steps after earlier ones, without those of members who left; new roles stay if that works."""
        known = [step for step in earlier if self._author[step.id] in self.names]
        binding = bind_roles((*known, *steps), {**self.roles, **new_roles}, self._workers)
        if not binding.problems:
            self._made.update(new_roles)
            self._author.update((id_, bound.agent.name) for id_, bound in binding.by_step.items())
        return binding

    async def take_changes(self, before: str, ctx: Context) -> None:
        """Let experts join and leave before the decision at this key of the plan."""
        if await self._ctx.changes(before=f"{SCOPE}/{before}", apply=self._apply):
            left = tuple(self._present.left)
            reason, lead = "the members changed", self._options.lead
            await ctx.emit(TeamLife(state="executing", lead=lead, members=self.names, left=left, reason=reason))

    def _apply(self, applied: AppliedChange) -> str | None:
        change = applied.change
        if isinstance(change, RemoveMember) and (problem := self._needs(change.member)):
            return problem
        if (problem := self._present.apply(applied)) is not None:
            return problem
        self._workers = Members(self._present)
        return None

    def _needs(self, leaver: str) -> str | None:
        """Return what the team needs a member for that wants to leave."""
        if leaver == self._options.lead:
            return f"{leaver!r} leads the team, and stays"
        if self._options.evaluate is not None and leaver in self._options.evaluate.judges:
            return f"{leaver!r} judges the work of the team, and stays"
        remaining = Members([one for one in self._present if one.name != leaver])
        for name, role in self._options.roles.items():
            if bind_roles([Step(id=name, role=name)], {name: role}, remaining).problems:
                return f"no other member can have the role {name!r}"
        return None
