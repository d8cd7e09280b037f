"""Decides whether a run can take an intervention; a refusal is a sentence for the person who sent it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import assert_never

from teamwright.errors import nearest
from teamwright.runtime.driver.raised_limits import amounts
from teamwright.strategies.protocol import InterventionName
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.people import (
    AddMember,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    ResumeMember,
    Steer,
    Tell,
)

NAMES: dict[type[Steer], InterventionName] = {
    Tell: "say",
    PauseMember: "pause",
    ResumeMember: "pause",
    RaiseBudget: "raise_budget",
    EditPlan: "edit_plan",
    AddMember: "add_member",
    RemoveMember: "remove_member",
}
REFUSALS: dict[InterventionName, str] = {
    "say": "takes no messages while it runs",
    "pause": "can't hold one member while the others work",
    "raise_budget": "keeps its budget while it runs",
    "edit_plan": "has no plan that people edit while it runs",
    "add_member": "keeps its members while it runs",
    "remove_member": "keeps its members while it runs",
}
"""What a strategy does that does not take an intervention, after its name."""


def refusal_of(
    steer: Steer, team: Team, limits: Sequence[Limits], paused: Collection[str], joined: Collection[str]
) -> str | None:
    """Return why a run of this team can't take an intervention now; `None` if it can.

    `limits` are those that can be raised, `paused` the members that are paused, and `joined` those that were added.
    """
    name, taken = NAMES[type(steer)], team.strategy.interventions
    if name not in taken:
        can = ", ".join(taken) or "nothing"
        return f"the strategy {team.strategy.name!r} {REFUSALS[name]}; it takes: {can}"
    match steer:
        case Tell(to=""):
            return None
        case Tell(to=member) | RemoveMember(member=member):
            return _unknown(member, team, joined)
        case PauseMember(member=member):
            return _unknown(member, team, joined) or (f"{member!r} is paused already" if member in paused else None)
        case ResumeMember(member=member):
            return _unknown(member, team, joined) or (f"{member!r} is not paused" if member not in paused else None)
        case RaiseBudget():
            return _no_raise(steer, limits)
        case EditPlan() | AddMember():
            return None
        case _:
            assert_never(steer)


def _unknown(member: str, team: Team, joined: Collection[str]) -> str | None:
    """Return that no member of the run has this name, with the nearest one."""
    names = [*joined, *(agent.name for agent in team.everyone() if agent is not team or team.is_single_agent)]
    return None if member in names else f"there is no member {member!r}; {nearest(member, names).rstrip('.')}"


def _no_raise(steer: RaiseBudget, limits: Sequence[Limits]) -> str | None:
    """Return which of the given limits can't be raised, because it is not set or not lower."""
    for name, given in amounts(steer).items():
        present = [found[name] for one in limits if name in (found := amounts(one))]
        if not present:
            return f"neither the run nor its team has a limit on {name}, so there is none to raise"
        if given <= min(present):
            return f"the limit on {name} is {min(present):g} already; a limit can only be raised"
    return None
