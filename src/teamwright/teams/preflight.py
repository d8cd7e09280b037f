"""Whether everybody in a team can answer, as far as that is known before anything runs and without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from teamwright.agents.context import AgentLike
from teamwright.agents.contract import policy_of
from teamwright.agents.model.models import Models
from teamwright.agents.preflight import Preflight
from teamwright.documents.nodes import Place
from teamwright.errors import ManifestError, Problem
from teamwright.teams.team import Team

NAMED = 8


async def check_ready(team: Team, models: Models, places: Mapping[str, Place] | None = None) -> None:
    """Raise with all that keeps agents from answering: models that are not known, extras and keys that are missing."""
    lacking: dict[str, list[str]] = {}
    for agent in _everyone(team):
        for text in await agent.preflight(models) if isinstance(agent, Preflight) else ():
            names = lacking.setdefault(text, [])
            if agent.name not in names:
                names.append(agent.name)
    if lacking:
        raise ManifestError([_problem(text, names, places or {}) for text, names in lacking.items()])


def _everyone(team: Team) -> Iterator[AgentLike]:
    """The agents of a team, with those that stand in under the same name."""
    for agent in team.everyone():
        yield agent
        other = policy_of(agent).fallback
        if other is not None and other.name == agent.name:
            yield other


def _problem(text: str, names: list[str], places: Mapping[str, Place]) -> Problem:
    """One thing that is missing, told once for all who need it, at the place of the first."""
    place = places.get(names[0], Place(""))
    who = ", ".join(map(repr, names[:NAMED])) + (" …" if len(names) > NAMED else "")
    return Problem(f"{'agent' if len(names) == 1 else 'agents'} {who}: {text}", place.file, place.line, place.column)
