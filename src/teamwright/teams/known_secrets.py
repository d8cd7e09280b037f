"""Collects the secrets that a team knows, which a run masks before it records or delivers anything.

A manifest's are found when it is loaded. Those of a team that was made in Python are in the same fields of its
declaration; its record holds a mark in their place, so a resume needs the team again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent, agent_spec_of, has_policy, is_package_class, same_name_fallbacks
from teamwright.errors import UsageError
from teamwright.teams.manifests.secrets import MOST_SECRETS, secrets_of
from teamwright.teams.team import Team
from teamwright.values.secrets.classification import escape_references
from teamwright.values.specs.manifest import Manifest, Source


def known_secrets(team: Team) -> frozenset[str]:
    """Return the secrets of a team."""
    if team.declared is not None:
        return team.secrets
    agents = team.everyone()
    return secrets_in(agents, team.declaration(agents))


def secrets_in(agents: Sequence[Agent], declaration: JsonValue) -> frozenset[str]:
    """Return the secrets of a team that was made in Python, from all of its agents and its source as JSON.

    Raises `UsageError` if there are more than can be masked.
    """
    found = set(secrets_of(declaration))
    for agent in agents:
        found |= _undeclared_secrets(agent)
        for other in same_name_fallbacks(agent) if has_policy(agent) else ():  # of which only the model is declared
            said = Source(manifest=Manifest(agents={other.name: agent_spec_of(other)}), team="").to_json()
            found |= _undeclared_secrets(other) | secrets_of(escape_references(said))
    if len(found) > MOST_SECRETS:
        raise UsageError(f"The team has {len(found)} secrets, and at most {MOST_SECRETS} can be masked.")
    return frozenset(found)


def _undeclared_secrets(agent: Agent) -> frozenset[str]:
    """Return those of a model that the caller made, and those of a team that a manifest reads into other fields."""
    return getattr(agent, "secrets", frozenset()) if is_package_class(type(agent)) else frozenset()
