"""Loads teams from manifest files, rebuilds them from the record of a run, and builds an agent that joins a run.

A team can also be declared without its code: with the same members and options, and nothing in it that can be called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue, ValidationError

from teamwright.agents.agent import Agent
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.functions.imports import modules_of
from teamwright.errors import UsageError
from teamwright.teams.builder import SCRIPTED, Builder, allowed_roots, replace_models
from teamwright.teams.manifests.environment_variables import resolve_secrets
from teamwright.teams.manifests.manifest_loader import Loaded, load
from teamwright.teams.manifests.reference_checks import MODEL
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.names import is_web_address
from teamwright.values.specs.manifest import AgentSpec, Manifest, Source
from teamwright.values.specs.models import AnyModel, ServerModel
from teamwright.values.specs.tools import TERMINATE
from teamwright.values.text.secrets import without_secrets
from teamwright.values.text.validation_messages import misfits_of

ADDRESSES = ("http://", "https://")

STAND_IN = "local"
"""The model of agents that have none: it is never called, and costs nothing."""


def read_manifest(paths: Sequence[Path], *, models_replaced: bool = False, thorough: bool = False) -> Loaded:
    """Load files and folders as one manifest; raises `ManifestError` with every mistake."""
    return load(paths, models_replaced=models_replaced, thorough=thorough)


def load_team(
    *paths: Path | str,
    team: str | None = None,
    model: str | None = None,
    models: Models | None = None,
    allow_roots: Sequence[Path | str] = (),
) -> Team:
    """Build the team that these files declare; `team.warnings` lists what is not supported in them.

    `model` replaces every model. Modules beside the first file are found before installed ones. File tools may use the
    folders of the files, and `allow_roots`.
    """
    loaded = read_manifest([Path(path) for path in paths], models_replaced=model is not None)
    built = team_from_source(source_of(loaded, team=team, model=model, allow_roots=allow_roots), models)
    built.warnings = loaded.warnings
    return built


def source_of(
    loaded: Loaded, *, team: str | None = None, model: str | None = None, allow_roots: Sequence[Path | str] = ()
) -> Source:
    """Return the source that a run of one of the loaded teams records, from which a resume rebuilds the team."""
    manifest = loaded.manifest if model is None else replace_models(loaded.manifest, resolve_model(model))
    with modules_of(loaded.base):  # a strategy beside the manifest says which agents its options name
        name = Builder(manifest).team_name(team)
    roots = allowed_roots(loaded.base, loaded.files, allow_roots)
    return Source(manifest=manifest, team=name, base=str(loaded.base.resolve()), roots=roots)


def source_with_model(source: Source, *, model: str) -> Source:
    """Return the source with every model replaced by this one."""
    return source.model_copy(update={"manifest": replace_models(source.manifest, resolve_model(model))})


def source_with_limits(source: Source, limits: Limits) -> Source:
    """Return the source without those limits of the outermost team that the run overrides: both would apply."""
    teams, agents = source.manifest.teams, source.manifest.agents
    owner = teams.get(source.team) or agents.get(source.team)
    if owner is None or owner.limits is None:
        return source
    removed = dict.fromkeys(limits.bounds.given)
    updated = owner.model_copy(update={"limits": owner.limits.model_copy(update=removed)})
    field, declared = ("teams", teams) if source.team in teams else ("agents", agents)
    manifest = source.manifest.model_copy(update={field: {**declared, source.team: updated}})
    return source.model_copy(update={"manifest": manifest})


def source_with_roots(source: Source, allow_roots: Sequence[Path | str]) -> Source:
    """Return the source with more folders that its file tools may use."""
    if source.roots is None or not allow_roots:
        return source
    return source.model_copy(update={"roots": (*source.roots, *allowed_roots(Path(source.base), (), allow_roots))})


def team_from_source(
    source: Source,
    models: Models | None = None,
    *,
    recorded: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Team:
    """Build the team of a source, with secrets from the environment; one that is `recorded` is not checked again."""
    manifest, secrets = resolve_secrets(source.manifest, environment)
    with modules_of(source.module_folder):
        team = Builder(manifest, Path(source.base), models, source.roots, recorded).team(source.team)
    team.declared, team.secrets = source, secrets
    return team


def resolve_model(model: str) -> str | ServerModel:
    """Resolve a model from the command line: `URL#name` is one at a server of your own.

    The path of a script is relative to the current folder, not to the manifest.
    """
    if model == SCRIPTED:
        raise UsageError(f"The model {model!r} names no file: write  {model}FILE")
    if model.startswith(ADDRESSES):
        return _server_model(model)
    if model.strip() and not MODEL.fullmatch(model):
        raise UsageError(
            f"There is no model {model!r}: write provider:name, local, local:FILE, scripted:FILE, or URL#name for one"
            " at a server of your own."
        )
    if not model.startswith(SCRIPTED):
        return model
    return SCRIPTED + str(Path(model.removeprefix(SCRIPTED)).resolve())


def _server_model(written: str) -> ServerModel:
    url, _, name = written.partition("#")
    if not name.strip() or not is_web_address(url):
        raise UsageError(
            f"The model {written!r} is no model at a server: write its base URL and its name, such as"
            "  http://localhost:8000/v1#qwen3"
        )
    return ServerModel(url=url, name=name)


def build_new_member(team: Team, name: str, declared: JsonValue) -> Agent:
    """Build the agent beside the agents and models of the team; raises `UsageError` with what is wrong.

    Without a model of its own it has that of the team's first member that has one. Its declaration is recorded, so it
    may not contain a secret, nor name one that the team does not use.
    """
    source, spec = team.source, check_declaration(name, declared)
    if spec.model is spec.function is spec.a2a is spec.acp is spec.expert is None:
        spec = spec.model_copy(update={"model": _shared_model(team, name)})
    agents = {**source.manifest.agents, name: spec}
    declared_with = source.manifest.model_copy(update={"agents": agents})
    if team.permit is not None:
        team.permit(declared_with)
    manifest, secrets = resolve_secrets(declared_with)
    if not secrets <= team.secrets:
        raise UsageError(f"The new member {name!r} names a secret that the team does not use; declare it in the team.")
    with modules_of(source.module_folder):
        return Builder(manifest, Path(source.base), roots=source.roots).agent(name)


def _shared_model(team: Team, name: str) -> AnyModel:
    """Return the model of the first member that has one, or else of the first agent of the manifest.

    A script has no answers for a new member.
    """
    agents = team.source.manifest.agents
    first = [agents[member.name] for member in team.members if member.name in agents]
    models = (one.model for one in (*first, *agents.values()) if one.model is not None)
    found = next((one for one in models if not str(one).startswith(SCRIPTED)), None)
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


def without_code(source: Source) -> Source:
    """Return the declaration of a team whose agents load no function, script, tool or instructions."""
    manifest = source.manifest
    agents = {name: _without_code(manifest, spec) for name, spec in manifest.agents.items()}
    return source.model_copy(update={"manifest": manifest.model_copy(update={"agents": agents})})


def _without_code(manifest: Manifest, spec: AgentSpec) -> AgentSpec:
    """An agent that is declared alike and loads no function, script, tool or instructions."""
    model: AnyModel = STAND_IN if spec.model is None else spec.model
    return spec.model_copy(
        update={
            "model": manifest.models.get(model, model) if isinstance(model, str) else model,
            "function": None,
            "instructions": "",
            "check": None,
            "memory": None,
            "confirm": spec.confirm and spec.confirm.model_copy(update={"tools": False}),
            "tools": (TERMINATE,) if TERMINATE in spec.tools else (),
        }
    )
