"""From files to a team that runs, and from a run's record to the same team."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from teamwright.agents.model.models import Models
from teamwright.errors import UsageError
from teamwright.manifests.checks.references import MODEL
from teamwright.manifests.load import Loaded, load
from teamwright.manifests.secrets import resolve_secrets
from teamwright.teams.builder import SCRIPTED, Builder, replace_models
from teamwright.teams.file_roots import allowed_roots
from teamwright.teams.team import Team
from teamwright.values.limits.limits import Limits
from teamwright.values.specs.manifest import Source


def read_manifest(paths: Sequence[Path], *, models_replaced: bool = False, thorough: bool = False) -> Loaded:
    """Load files and folders together; raises with every mistake at once."""
    return load(paths, models_replaced=models_replaced, thorough=thorough)


def load_team(
    *paths: Path | str,
    team: str | None = None,
    model: str | None = None,
    models: Models | None = None,
    allow_roots: Sequence[Path | str] = (),
) -> Team:
    """The team that these files declare; `team.warnings` says what in them is not supported.

    `model` takes the place of every model. File tools may use folders below those of the files, and `allow_roots`.
    """
    loaded = read_manifest([Path(path) for path in paths], models_replaced=model is not None)
    made = team_from(source_of(loaded, team=team, model=model, allow_roots=allow_roots), models)
    made.warnings = loaded.warnings
    return made


def source_of(
    loaded: Loaded, *, team: str | None = None, model: str | None = None, allow_roots: Sequence[Path | str] = ()
) -> Source:
    """What a run of one of the loaded teams records of where it came from."""
    manifest = loaded.manifest if model is None else replace_models(loaded.manifest, anchored(model))
    name = Builder(manifest).team_name(team)
    roots = allowed_roots(loaded.base, loaded.files, allow_roots)
    return Source(manifest=manifest, team=name, base=str(loaded.base.resolve()), roots=roots)


def source_with(source: Source, *, model: str) -> Source:
    """The source with this model in place of every one."""
    return source.model_copy(update={"manifest": replace_models(source.manifest, anchored(model))})


def source_under(source: Source, limits: Limits) -> Source:
    """The source for a run with these limits: the outermost team has none of the same kinds, which would hold too."""
    teams, agents = source.manifest.teams, source.manifest.agents
    owner = teams.get(source.team) or agents.get(source.team)
    if owner is None or owner.limits is None:
        return source
    lifted = dict.fromkeys(limits.bounds.given)
    updated = owner.model_copy(update={"limits": owner.limits.model_copy(update=lifted)})
    field, declared = ("teams", teams) if source.team in teams else ("agents", agents)
    manifest = source.manifest.model_copy(update={field: {**declared, source.team: updated}})
    return source.model_copy(update={"manifest": manifest})


def source_allowing(source: Source, allow_roots: Sequence[Path | str]) -> Source:
    """The source with further folders that its file tools may use."""
    if source.roots is None or not allow_roots:
        return source
    return source.model_copy(update={"roots": (*source.roots, *allowed_roots(Path(source.base), (), allow_roots))})


def team_from(source: Source, models: Models | None = None, *, recorded: bool = False) -> Team:
    """The team of a source, with secrets read from the environment now; one from a record was checked before."""
    manifest, secrets = resolve_secrets(source.manifest)
    team = Builder(manifest, Path(source.base), models, source.roots, recorded).team(source.team)
    team.declared, team.secrets = source, secrets
    return team


def anchored(model: str) -> str:
    """A model as it is named on the command line: a script lies relative to where the user is, not to the manifest."""
    if model == SCRIPTED:
        raise UsageError(f"The model {model!r} names no file: write  {model}FILE")
    if model.strip() and not MODEL.fullmatch(model):
        raise UsageError(f"There is no model {model!r}: write provider:name, local, local:FILE or scripted:FILE.")
    if not model.startswith(SCRIPTED):
        return model
    return SCRIPTED + str(Path(model.removeprefix(SCRIPTED)).resolve())
