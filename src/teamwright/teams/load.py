"""Loads teams from manifest files, and rebuilds them from the record of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from teamwright.agents.clients.models import Models
from teamwright.agents.functions.imports import modules_of
from teamwright.errors import UsageError
from teamwright.teams.builder import SCRIPTED, Builder, replace_models
from teamwright.teams.file_roots import allowed_roots
from teamwright.teams.manifests.checks.references import MODEL
from teamwright.teams.manifests.load import Loaded, load
from teamwright.teams.manifests.secrets import resolve_secrets
from teamwright.teams.team import Team
from teamwright.values.limits.limits import Limits
from teamwright.values.specs.manifest import ServerModel, Source
from teamwright.values.text.web_address import is_web_address

ADDRESSES = ("http://", "https://")


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
