"""The members of a team that people change while it works: who is there now, who leads, and who has left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from teamwright.agents.contract.agent import Agent, AppliedChange
from teamwright.errors import nearest
from teamwright.strategies.plan.bound_roles import bind_roles
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.protocol import Members
from teamwright.values.people import AddMember, RemoveMember, TeamChange, Tell
from teamwright.values.specs.plan import Roster, Step


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
