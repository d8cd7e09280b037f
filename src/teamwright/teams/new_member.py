"""Builds an agent that joins the team of a running run, from its declaration."""

from __future__ import annotations

from pathlib import Path

from pydantic import JsonValue, ValidationError

from teamwright.agents.contract.agent import Agent
from teamwright.agents.functions.imports import modules_of
from teamwright.errors import UsageError
from teamwright.teams.builder import Builder
from teamwright.teams.manifests.secrets import resolve_secrets
from teamwright.teams.team import Team
from teamwright.values.secrets.classification import without_secrets
from teamwright.values.specs.manifest import AgentSpec, AnyModel
from teamwright.values.text.validation_messages import misfits_of


def build_new_member(team: Team, name: str, declared: JsonValue) -> Agent:
    """Build the agent beside the agents and models of the team; raises `UsageError` with what is wrong.

    Without a model of its own it has that of the team's first member that has one. Its declaration is recorded, so it
    may not contain a secret, nor name one that the team does not use.
    """
    source, spec = team.source, check_declaration(name, declared)
    if spec.model is None and spec.function is None and spec.scripted is None and spec.expert is None:
        spec = spec.model_copy(update={"model": _shared_model(team, name)})
    agents = {**source.manifest.agents, name: spec}
    declared_with = source.manifest.model_copy(update={"agents": agents})
    if team.permit is not None:
        team.permit(declared_with)
    manifest, secrets = resolve_secrets(declared_with)
    if not secrets <= team.secrets:
        raise UsageError(f"The new member {name!r} names a secret that the team does not use; declare it in the team.")
    with modules_of(source.module_folder):
        built = Builder(manifest, Path(source.base), roots=source.roots).team(name)
    return built.members[0]


def _shared_model(team: Team, name: str) -> AnyModel:
    """Return the model of the first member that has one, or else of the first agent of the manifest."""
    agents = team.source.manifest.agents
    first = [agents[member.name] for member in team.members if member.name in agents]
    found = next((one.model for one in (*first, *agents.values()) if one.model is not None), None)
    if found is None:
        raise UsageError(
            f"The new member {name!r} needs a model, and its team has none to share: name one, such as openai:gpt-5."
        )
    return found


def check_declaration(name: str, declared: JsonValue) -> AgentSpec:
    """Return the declaration of an agent; raises `UsageError` for a mistake or a secret in it."""
    try:
        spec = AgentSpec.model_validate(declared)
    except ValidationError as error:
        wrong = "; ".join(map(str, misfits_of(error, declared)))
        raise UsageError(f"The declaration of {name!r} does not fit: {wrong}.") from error
    if without_secrets(declared) != declared:
        raise UsageError(f"The declaration of {name!r} contains a secret, which would be recorded.")
    return spec
