"""Puts a team into another topology: the same members and work, with another strategy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pydantic import JsonValue

from teamwright.errors import ManifestError, UsageError
from teamwright.lab.topology.profiles import Topology
from teamwright.strategies.options import named_agents
from teamwright.strategies.plan.step_options import STEPS
from teamwright.strategies.protocol import Settings
from teamwright.strategies.registry import find_strategy, strategy_names
from teamwright.teams.team import Team
from teamwright.values.specs.manifest import TeamSpec

ONE_AFTER_ANOTHER = frozenset(("sequential", "round_robin"))


def in_topology(team: Team, topology: Topology) -> Team:
    """Return the team with the strategy of a topology, and those of its options that both strategies have.

    Raises `UsageError` with the reason if there is no such strategy or the team does not fit it.
    """
    if topology not in strategy_names():
        raise UsageError(f"there is no strategy {topology!r}")
    if team.strategy.name == topology:
        return team
    strategy = find_strategy(topology)
    known = strategy.options
    options = {name: value for name, value in team.settings.options.items() if known and name in known.model_fields}
    if known and STEPS in known.model_fields and STEPS not in options:
        options[STEPS] = cast("JsonValue", _steps(team))
    settings = team.settings
    named = {one.name for one in named_agents(strategy, options)}
    try:
        return Team(
            team.name,
            members=team.members,
            helpers=[one for one in team.helpers if one.name in named],
            strategy=strategy,
            description=team.description,
            share=spec_of(team).share,
            envelope=settings.envelope,
            limits=team.limits,
            options=options,
            recovery=team.recovery,
            degradation=team.degradation,
        )
    except ManifestError as error:
        raise UsageError(f"the team does not fit {topology!r}: {error}") from error


def spec_of(team: Team) -> TeamSpec:
    """The team's declaration; for a team made in Python, `share` is left out if it is the strategy's default."""
    declared = team.declared.manifest.teams.get(team.declared.team) if team.declared else None
    explicit = team.settings.share != team.strategy.share
    return declared or (team.spec if explicit else team.spec.model_copy(update={"share": None}))


def average_tokens(steps: Iterable[JsonValue]) -> int | None:
    """The average of the tokens that steps declare; None if no step declares any."""
    tokens = [int(cast("int", one.get("execution_tokens", 0))) for one in steps if isinstance(one, dict)]
    return round(sum(tokens) / len(tokens)) or None if tokens else None


def _steps(team: Team) -> list[dict[str, JsonValue]]:
    """The declared steps, or one step per member for strategies that ask members one after another."""
    settings: Settings = team.settings
    if isinstance(given := settings.options.get(STEPS), Iterable):
        return [dict(cast("dict[str, JsonValue]", step)) for step in given]
    if team.strategy.name not in ONE_AFTER_ANOTHER:
        raise UsageError(f"the steps of {team.name!r} are not known in advance: its strategy is {team.strategy.name!r}")
    steps: list[dict[str, JsonValue]] = []
    for number, member in enumerate(team.members, start=1):
        needs: JsonValue = [f"step-{number - 1}"] if number > 1 else []
        steps.append({"id": f"step-{number}", "agent": member.name, "needs": needs})
    return steps
