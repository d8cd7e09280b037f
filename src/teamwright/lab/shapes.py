"""The same members on the same work in another shape: a team's topologies, as far as their strategies are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast, get_args

from pydantic import JsonValue

from teamwright.errors import ManifestError, UnknownName, UsageError
from teamwright.planning.profiles import ALIASES, Topology
from teamwright.strategies.options import names_in
from teamwright.strategies.protocol import Settings, options_of, share_of
from teamwright.strategies.registry import find_strategy, strategy_names
from teamwright.teams.team import Team

TOPOLOGY_NAMES: tuple[Topology, ...] = get_args(Topology)
STEPS = "steps"
ONE_AFTER_ANOTHER = frozenset(("sequential", "round_robin"))


def topology_named(name: str) -> Topology:
    """The topology that is meant, by its name or its short name."""
    plain = name.strip().replace("-", "_")
    found = ALIASES.get(plain, plain)
    if found not in TOPOLOGY_NAMES:
        raise UnknownName("topology", name, [*TOPOLOGY_NAMES, *ALIASES])
    return found


def in_topology(team: Team, topology: Topology) -> Team:
    """The team with the strategy of a topology, and of its options those that both take.

    Raises `UsageError`, which says why, where that strategy is not there or the team does not fit it.
    """
    if topology not in strategy_names():
        raise UsageError(f"there is no strategy {topology!r}")
    if team.strategy.name == topology:
        return team
    strategy = find_strategy(topology)
    known = options_of(strategy)
    options = {name: value for name, value in team.settings.options.items() if known and name in known.model_fields}
    if known and STEPS in known.model_fields and STEPS not in options:
        options[STEPS] = cast("JsonValue", _steps(team))
    settings = team.settings
    named = {one.name for one in names_in(strategy, options)}
    try:
        return Team(
            team.name,
            members=team.members,
            helpers=[one for one in team.helpers if one.name in named],
            strategy=strategy,
            description=team.description,
            share=None if settings.share == share_of(team.strategy) else settings.share,
            handoff=settings.handoff,
            limits=team.limits,
            options=options,
            recovery=team.recovery,
            degradation=team.degradation,
        )
    except ManifestError as error:
        raise UsageError(f"the team does not fit {topology!r}: {error}") from error


def steps_of(team: Team) -> Sequence[dict[str, JsonValue]]:
    """The steps of a team where they are known beforehand; else nothing."""
    try:
        return _steps(team)
    except UsageError:
        return ()


def _steps(team: Team) -> list[dict[str, JsonValue]]:
    """The steps that the options list, or members one after another where the strategy works so."""
    settings: Settings = team.settings
    if isinstance(given := settings.options.get(STEPS), Iterable):
        return [dict(cast("dict[str, JsonValue]", step)) for step in given]
    if team.strategy.name not in ONE_AFTER_ANOTHER:
        raise UsageError(f"the steps of {team.name!r} are not known beforehand: its strategy is {team.strategy.name!r}")
    steps: list[dict[str, JsonValue]] = []
    for number, member in enumerate(team.members, start=1):
        needs: JsonValue = [f"step-{number - 1}"] if number > 1 else []
        steps.append({"id": f"step-{number}", "agent": member.name, "needs": needs})
    return steps
