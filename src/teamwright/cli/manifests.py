"""`teamwright validate` and `teamwright schema`: manifests before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.failures import problem_json
from teamwright.cli.options import ManifestPath, Model, With
from teamwright.cli.output import Json, Out, check_out, result, result_json, say

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.teams.manifest import Loaded

MANIFEST, ENVELOPE = "manifest", "envelope"
"""What there are schemas of."""


def validate(
    manifest: ManifestPath,
    more: With = None,
    model: Model = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Check a manifest and tell every mistake at once, with its line and column."""
    from teamwright.teams.load import read_manifest

    check_out(out)
    loaded = read_manifest([manifest, *(more or ())], models_replaced=model is not None)
    _build(loaded, model)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    if json:
        result_json(_described(loaded), out)
    else:
        result(_words(loaded), out)
    return 0


def schema(
    what: Annotated[str, typer.Argument(metavar="[WHAT]", help="manifest (without it) or envelope.")] = MANIFEST,
    json: Json = False,  # noqa: ARG001 - a schema is JSON in any case
    out: Out = None,
) -> int:
    """Print the JSON Schema of manifests, for editors, or of envelopes."""
    from teamwright.errors import UnknownName

    check_out(out)
    if what not in (MANIFEST, ENVELOPE):
        raise UnknownName("schema", what, (MANIFEST, ENVELOPE))
    result_json(_schema(what), out)
    return 0


def _schema(what: str) -> dict[str, JsonValue]:
    if what == ENVELOPE:
        from teamwright.values.envelope import envelope_schema

        return envelope_schema()
    from teamwright.teams.manifest import manifest_schema

    return manifest_schema()


def _build(loaded: Loaded, model: str | None) -> None:
    """Make every team once, which finds functions and scripts that are not there; no environment is needed for it."""
    from teamwright.cli.importing import let_import
    from teamwright.errors import ManifestError, Problem, UsageError
    from teamwright.teams.build import Builder, replace_models
    from teamwright.teams.load import anchored

    manifest = loaded.manifest if model is None else replace_models(loaded.manifest, anchored(model))
    let_import(loaded.base)
    builder = Builder(manifest, loaded.base)
    problems: dict[str, Problem] = {}
    for name in (*manifest.teams, *manifest.agents):
        try:
            builder.team(name)
        except ManifestError as error:
            problems.update({str(problem): problem for problem in error.problems})
        except UsageError as error:
            problems[str(error)] = Problem(str(error), str(loaded.files[0]))
    if problems:
        raise ManifestError(list(problems.values()))


def _words(loaded: Loaded) -> str:
    from teamwright.values.texts import count_text

    manifest = loaded.manifest
    agents, teams = len(manifest.agents), len(manifest.teams)
    lines = [f"valid: {count_text(agents, 'agent')}, {count_text(teams, 'team')}"]
    lines += [f"  {name}: {team.strategy} of {', '.join(team.members)}" for name, team in manifest.teams.items()]
    return "\n".join(lines)


def _described(loaded: Loaded) -> dict[str, JsonValue]:
    manifest = loaded.manifest
    return {
        "valid": True,
        "files": [str(file) for file in loaded.files],
        "agents": list(manifest.agents),
        "teams": {
            name: {"strategy": team.strategy, "members": list(team.members)} for name, team in manifest.teams.items()
        },
        "queries": list(loaded.queries),
        "warnings": [problem_json(problem) for problem in loaded.warnings],
    }
