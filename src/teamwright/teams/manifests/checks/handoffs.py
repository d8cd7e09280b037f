"""Checks the handoffs of a manifest's agents: their team takes them, and each names another member of it."""

from __future__ import annotations

from collections.abc import Iterable

from teamwright.documents.nodes import Items, Place, ProblemReport, Scalar, shown
from teamwright.strategies.handoffs import handoff_flaws
from teamwright.strategies.protocol import Members, Strategy
from teamwright.teams.manifests.checks.agent_tools import agents_in_tools
from teamwright.teams.manifests.declarations import Declaration, Declarations

HANDOFFS = "handoffs"


def declared_handoffs(agent: Declaration) -> tuple[str, ...] | bool:
    """Return the handoffs of an agent as far as they are valid; mistakes in their form were reported before."""
    given = agent.fields.get(HANDOFFS)
    if isinstance(given, Items):
        return tuple(name for name, _ in agent.fields.texts(HANDOFFS))
    return isinstance(given, Scalar) and given.value is True


def check_team_handoffs(
    team: Declaration, strategy: Strategy | None, members: Members, declared: Declarations, report: ProblemReport
) -> None:
    """Report handoffs of members that their team can't make, where they are declared."""
    for flaw in handoff_flaws(strategy, members):
        agent = declared.agents[flaw.member]
        hint = report.near(flaw.to, flaw.known) if flaw.known else ""
        report.problem(_place_of(agent, flaw.to), f"{team.words}: {flaw.text}", hint)


def check_lone_handoffs(declared: Declarations, report: ProblemReport) -> None:
    """Report handoffs of agents that are in no team, and of agents that are tools, which have no turn in a team."""
    tools = {name: owner for owner in declared.agents.values() for name, _ in agents_in_tools(owner, declared)}
    members = {name for team in declared.every("team") for name, _ in team.fields.texts("members")}
    for agent in declared.agents.values():
        if not declared_handoffs(agent):
            continue
        if owner := tools.get(agent.name):
            text = f"{agent.words} has handoffs, so it can't be a tool of {shown(owner.name)}"
            report.problem(_place_of(agent), text, "make its team the tool")
        elif agent.name not in members:
            report.problem(_place_of(agent), f"{agent.words} has handoffs and is a member of no team", "remove them")


def _place_of(agent: Declaration, target: str = "") -> Place:
    """The place of a target in the handoffs of an agent, or of all of them."""
    named: Iterable[tuple[str, Place]] = agent.fields.texts(HANDOFFS) if target else ()
    return next((place for name, place in named if name == target), agent.fields.key_place(HANDOFFS))
