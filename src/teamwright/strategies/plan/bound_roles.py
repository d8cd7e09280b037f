"""Binds the steps of a plan to roles and the roles to members, before any step starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from teamwright.agents.agent import Agent
from teamwright.strategies.protocol import Members, description_line
from teamwright.values.events.team import TeamRoleBound
from teamwright.values.names import NAME
from teamwright.values.specs.plan import CreatedRole, Role, Step

NO_ROLE = Role.model_construct()


@dataclass(frozen=True, slots=True)
class BoundRole:
    """A role and the member that has it."""

    name: str
    role: Role
    agent: Agent


@dataclass(slots=True)
class RoleBinding:
    """The roles of a plan by step. `problems` are the steps without a member."""

    by_step: dict[str, BoundRole] = field(default_factory=dict[str, BoundRole])
    problems: list[str] = field(default_factory=list[str])
    considered: tuple[str, ...] = ()

    def facts(self) -> list[TeamRoleBound]:
        """Return an event for each role that is bound, in plan order."""
        bound = {(one.name, one.agent.name): one for one in self.by_step.values()}
        return [
            TeamRoleBound(role=name, member=member, capability=", ".join(one.role.wanted), considered=self.considered)
            for (name, member), one in bound.items()
        ]


def effective_roles(declared: Mapping[str, Role], members: Members, lead: str | None = None) -> dict[str, Role]:
    """Return the declared roles; without any, each member but the lead is a role of its own."""
    if declared:
        return dict(declared)
    others = [one for one in members if one.name != lead or len(members) == 1]
    return {one.name: _role_of(one) for one in others}


def _role_of(member: Agent) -> Role:
    """Return the member as a role of its own; what is taken was validated with the member."""
    return NO_ROLE.model_copy(update={"agent": member.name, "description": description_line(member)})


def steps_of_roles(roles: Mapping[str, Role], *, declared: bool = True) -> tuple[Step, ...]:
    """Return one step for each role, in order; each gets the results of all before it.

    Where no role is declared in a pool, it is a step for each member. What can't name a step is refused elsewhere.
    """
    names = [name for name in roles if NAME.fullmatch(name)]
    return tuple(
        Step(id=name, role=name if declared else None, needs=tuple(names[:place])) for place, name in enumerate(names)
    )


def role_of_step(step: Step, roles: Mapping[str, Role]) -> str:
    """Return the name of a step's role: its own, the role of its name, or its agent as a role of its own."""
    if step.role is not None:
        return step.role
    return step.id if step.id in roles else step.agent or step.id


def bind_roles(
    steps: Sequence[Step],
    roles: Mapping[str, Role],
    members: Members,
    avoided: Callable[[Step], Collection[str]] | None = None,
) -> RoleBinding:
    """Bind each step to its role and each role to a member: one with the capability, if possible without a role yet.

    The members to be avoided for a step get it only where no other one fits. A step that has begun needs no member.
    """
    agents = {one.name: one for one in members}
    binding = RoleBinding(considered=tuple(agents))
    taken: dict[str, str] = {}
    for step in steps:
        name = role_of_step(step, roles)
        role = roles.get(name, NO_ROLE)
        wanted = step.agent or role.agent
        if wanted is None and not role.wanted and name in agents:
            wanted = name
        considered = agents.values() if wanted is None else [agents[wanted]] if wanted in agents else ()
        fitting = [one for one in considered if has_capability(one, role)]
        if not fitting or (name not in roles and wanted is None):
            if step.is_open:
                binding.problems.append(_unbound(step, name, role, wanted, roles, agents))
            continue
        if avoided is not None and len(fitting) > 1:
            avoid = avoided(step)
            fitting = [one for one in fitting if one.name not in avoid] or fitting
        chosen = _choose(fitting, taken, name)
        if isinstance(role, CreatedRole):
            role = role.model_copy(update={"tools": _declared_tools(chosen, roles)})
        if role.tools is not None and chosen.kind == "team" and step.is_open:
            binding.problems.append(
                f"the role {name!r} of the step {step.id!r} allows only certain tools, and {chosen.name!r} is a team,"
                " whose members have their own; bind it to an agent"
            )
            continue
        taken[chosen.name] = taken.get(chosen.name, name)
        binding.by_step[step.id] = BoundRole(name, role, chosen)
    return binding


def possible_members(roles: Mapping[str, Role], members: Members) -> set[str]:
    """Return the names of the members that one of these roles may be bound to."""
    return {
        one.name
        for role in roles.values()
        for one in members
        if (role.agent is None or one.name == role.agent) and has_capability(one, role)
    }


def _choose(fitting: Sequence[Agent], taken: Mapping[str, str], name: str) -> Agent:
    """Return the member that has this role already, else one without a role, else the first that fits."""
    same = [one for one in fitting if taken.get(one.name) == name]
    free = [one for one in fitting if one.name not in taken]
    return [*same, *free, *fitting][0]


def _declared_tools(member: Agent, roles: Mapping[str, Role]) -> tuple[str, ...] | None:
    """Return the tools that all declared roles allow which a member may have; `None` if none of them forbids any."""
    own = [one for one in roles.values() if one.agent in (None, member.name) and has_capability(member, one)]
    allowed = [one.tools for one in own if one.tools is not None and not isinstance(one, CreatedRole)]
    return tuple(name for name in allowed[0] if all(name in tools for tools in allowed)) if allowed else None


def has_capability(agent: Agent, role: Role) -> bool:
    """Return whether an agent has the capabilities that a role requires."""
    return not role.wanted or {one.casefold() for one in role.wanted} <= {one.casefold() for one in agent.capabilities}


def _unbound(
    step: Step,
    name: str,
    role: Role,
    wanted: str | None,
    roles: Mapping[str, Role],
    agents: Mapping[str, Agent],
) -> str:
    """Return why a step can't be bound: what it needs, and who was considered."""
    considered = [agents[wanted]] if wanted is not None and wanted in agents else list(agents.values())
    names = ", ".join(f"{one.name} ({', '.join(one.capabilities) or 'no capabilities'})" for one in considered)
    if name not in roles and wanted is None:
        return f"the step {step.id!r} has no role: there is neither a role nor a member {name!r}; considered: {names}"
    words = "the capability" if len(role.wanted) == 1 else "the capabilities"
    need = f"{words} {' and '.join(map(repr, role.wanted))}" if role.wanted else f"the member {wanted!r}"
    return f"the step {step.id!r} needs the role {name!r}, which requires {need}; considered: {names}"
