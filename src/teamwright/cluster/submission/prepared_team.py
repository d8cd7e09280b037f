"""Prepares a team for a run on another machine: what travels with the run, and what workers must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from teamwright.agents.clients.models import Models
from teamwright.cluster.submission.code_folder import CodeFolder
from teamwright.cluster.submission.needs import VARIABLE
from teamwright.cluster.submission.packed_source import PackedSource, pack
from teamwright.cluster.submission.permissions import ROOTLESS, Permissions
from teamwright.cluster.submission.team_code import check_code
from teamwright.cluster.submission.team_loader import source_on_worker
from teamwright.errors import NotResumable, UsageError
from teamwright.teams.load import team_from_source
from teamwright.teams.manifests.secrets import lenient_environment, resolve_secrets
from teamwright.teams.preflight import check_declared
from teamwright.teams.team import Team
from teamwright.values.secrets.classification import without_secrets
from teamwright.values.specs.manifest import Source


@dataclass(frozen=True, slots=True)
class PreparedTeam:
    """A team, the files that travel with its run, and the digest of its code; empty if it needs no folder with code."""

    team: Team
    files: Mapping[str, bytes]
    code: str = ""
    options: tuple[str, ...] = ()
    """The options that workers need to drive the run, because it uses more than models."""


def prepare_team(
    source: Source, models: Models, *, code: CodeFolder | None = None, allow: Sequence[Path] = ()
) -> PreparedTeam:
    """Build the team of a source as workers will; raises `UsageError` for what they could not build.

    Environment variables and keys of models are those of the workers, so they need not be set here.
    `allow` are folders outside the manifest's whose files may travel, besides those of the source.
    """
    if code is not None:
        source = source.model_copy(update={"modules": str(code.folder)})
    check_code(source, code)
    team = team_from_source(source, models, environment=lenient_environment(source.manifest))
    team.secrets = frozenset(one for one in team.secrets if VARIABLE not in one)
    check_declared(team.everyone())
    packed = pack(source, allow=allow, secrets=team.secrets)
    _check_resumable(packed.source)
    _check_elsewhere(packed, models, code)
    team.declared = packed.source
    refused = Permissions().refusals(packed.source.manifest, None if code is None else code.folder)
    if ROOTLESS in refused:
        raise UsageError(
            "The files tool has no root, and workers have no folder for it: name an absolute path that each one has,"
            " such as  files: {root: /srv/shared}"
        )
    return PreparedTeam(team, packed.files, "" if code is None else code.digest, tuple(one.option for one in refused))


def _check_elsewhere(packed: PackedSource, models: Models, code: CodeFolder | None) -> None:
    """Raise `UsageError` for a team that can be built here alone: build it from what travels, in another folder."""
    with TemporaryDirectory(prefix="teamwright-") as folder:
        for path, content in packed.files.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        local = source_on_worker(packed.source, Path(folder), code, packed.source.roots)
        try:
            team_from_source(local, models, environment=lenient_environment(local.manifest), recorded=True)
        except UsageError as error:
            raise UsageError(f"No worker could drive this team, since it has another folder there: {error}") from error


def _check_resumable(source: Source) -> None:
    """Raise `UsageError` for a secret in the manifest itself: records store none, so that no worker would have it."""
    recorded = Source.model_validate(without_secrets(source.to_json()))
    try:
        resolve_secrets(recorded.manifest, lenient_environment(recorded.manifest))
    except NotResumable as error:
        raise UsageError(
            "The manifest contains a secret itself, and records store no secrets: write it as ${NAME}, which workers"
            " read from their environment."
        ) from error
