"""Checks before a run that every agent of a team is configured, without a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from teamwright.agents.contract.attributes import fallback_of
from teamwright.agents.contract.context import AgentLike
from teamwright.agents.contract.preflight import Preflight
from teamwright.agents.model.models import Models
from teamwright.documents.nodes import Place
from teamwright.errors import ManifestError, Problem
from teamwright.teams.team import Team

MOST_NAMED = 8


async def check_ready(team: Team, models: Models, places: Mapping[str, Place] | None = None) -> None:
    """Raise `ManifestError` with all configuration problems: unknown models, missing extras and keys."""
    problems: dict[str, list[str]] = {}
    for agent in _agents_and_fallbacks(team):
        for text in await agent.preflight(models) if isinstance(agent, Preflight) else ():
            names = problems.setdefault(text, [])
            if agent.name not in names:
                names.append(agent.name)
    if problems:
        raise ManifestError([_problem(text, names, places or {}) for text, names in problems.items()])


def _agents_and_fallbacks(team: Team) -> Iterator[AgentLike]:
    """Yield the agents of a team, and their fallbacks of the same name."""
    for agent in team.everyone():
        yield agent
        other = fallback_of(agent)
        if other is not None and other.name == agent.name:
            yield other


def _problem(text: str, names: list[str], places: Mapping[str, Place]) -> Problem:
    """Combine a problem that several agents have into one, at the position of the first."""
    place = places.get(names[0], Place(""))
    who = ", ".join(map(repr, names[:MOST_NAMED])) + (" …" if len(names) > MOST_NAMED else "")
    return Problem(f"{'agent' if len(names) == 1 else 'agents'} {who}: {text}", place.file, place.line, place.column)
