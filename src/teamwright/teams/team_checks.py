"""Checks a team that is made in Python: when it is made, and before its first run starts.

A team from a manifest was checked with positions when the manifest was loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from teamwright.agents.contract.agent import Agent, has_policy, require_agent
from teamwright.agents.evaluators import check_evaluations
from teamwright.agents.registry import MOST_NESTED, cycle_text, find_cycles
from teamwright.errors import ManifestError, Problem, UsageError, nearest
from teamwright.strategies.handoffs import handoff_flaws
from teamwright.strategies.options import settings_flaws
from teamwright.strategies.protocol import Members
from teamwright.teams.team import Team, successors
from teamwright.values.owned_paths import wildcards_problem


def check_team(team: Team) -> tuple[Problem, ...]:
    """Return the warnings about a team; raises `ManifestError` with everything in it that can't work."""
    _require_fallbacks((*team.members, *team.helpers))
    problems = [] if team.members else [f"the team {team.name!r} has no members"]
    if team.levels > MOST_NESTED:
        problems.append(
            f"the team {team.name!r} has teams within it {team.levels} levels deep; {MOST_NESTED} are possible"
        )
    found = settings_flaws(team.strategy, team.settings, Members(team.members, team.helpers))
    problems += [f"the team {team.name!r}: {flaw.text}" for flaw in found if not flaw.is_warning]
    for flaw in handoff_flaws(team.strategy, Members(team.members, team.helpers)):
        hint = f"; {nearest(flaw.to, flaw.known).rstrip('.')}" if flaw.known else ""
        problems.append(f"the team {team.name!r}: {flaw.text}{hint}")
    warnings = tuple(Problem(f"the team {team.name!r}: {flaw.text}") for flaw in found if flaw.is_warning)
    fallback = team.recovery.fallback if team.recovery else None
    if fallback and fallback not in Members(team.members, team.helpers).names:
        problems.append(f"the team {team.name!r}: the fallback {fallback!r} is neither a member nor a helper")
    known: dict[str, Agent] = {}
    for agent in team.roster.agents:
        if known.setdefault(agent.name, agent) is not agent and not team.is_single_agent:
            problems.append(f"two different agents are called {agent.name!r}")
    if problems:
        raise ManifestError([Problem(text) for text in problems])
    _check_fallbacks(team.roster.settled)
    return warnings


def check_start(team: Team) -> None:
    """Raise `ManifestError` for what may have changed since a team was made: a cycle of fallbacks, keys, judges."""
    settled = list(filter(has_policy, team.roster.agents))
    _check_fallbacks(settled)
    _check_keys(team)
    check_evaluations(settled)


def _check_fallbacks(agents: Iterable[Agent]) -> None:
    """Raise `ManifestError` with the path if a fallback leads back to its own agent."""
    starts = {id(agent): agent for agent in agents if agent.policy.fallback is not None}
    known = dict(starts)  # agents need not be hashable

    def edges(key: int) -> Iterator[tuple[int, None]]:
        for agent in successors(known[key]):
            known[id(agent)] = agent
            yield id(agent), None

    for cycle, _ in find_cycles(starts, edges):
        start = next(place for place, key in enumerate(cycle) if known[key].policy.fallback is not None)
        names = [known[key].name for key in (*cycle[start:-1], *cycle[: start + 1])]
        text = f"the fallback of {names[0]!r} leads back to it: {cycle_text(names)}; take one of them out"
        raise ManifestError([Problem(text)])


def _check_keys(team: Team) -> None:
    """Raise `ManifestError` if comparing the owned keys of all nested teams would take quadratic time."""
    from teamwright.strategies.plan.step_options import owned_keys

    keys = [key for one in team.roster.teams for key in owned_keys(one.strategy, one.settings)]
    if problem := wildcards_problem(keys):
        raise ManifestError([Problem(f"the steps of all teams in {team.name!r} {problem}")])


def _require_fallbacks(agents: Iterable[Agent]) -> None:
    """Raise `UsageError` if a fallback, or one of its own fallbacks, is not an agent.

    A nested team has checked those of its members.
    """
    pending = list(agents)
    checked = set(map(id, pending))
    for agent in pending:
        other = None if isinstance(agent, Team) else agent.policy.fallback
        if other is None or id(other) in checked:
            continue
        try:
            pending.append(require_agent(other))
        except UsageError as error:
            raise UsageError(f"The fallback of the agent {agent.name!r} can't be used. {error}") from error
        checked.add(id(other))
