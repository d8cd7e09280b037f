"""`teamwright show`: draws a team without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.terminal.options import ManifestPath, Model, TeamName, With
from teamwright.cli.terminal.output import Json, Out, check_out, redirect_prints, say, write_json, write_result

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.values.specs.manifest import Manifest

MERMAID = ".mmd"


def show(
    manifest: ManifestPath,
    more: With = None,
    team: TeamName = None,
    model: Model = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Draw a team: its members, and how work flows between them.

    Nothing runs, and no key is needed. Code that the manifest names is listed, not loaded, and so are the environment
    variables that a run would send, with the hosts, providers and programs that receive them. --out FILE.mmd writes a
    flowchart in the language of Mermaid.

    Examples:
      teamwright show team.yaml
      teamwright show team.yaml --out team.mmd
    """
    check_out(out)
    return draw(str(manifest), more, team, model, out, json=json)


@redirect_prints()
def draw(
    manifest: str | None,
    more: list[Path] | None,
    team: str | None,
    model: str | None,
    out: Path | None,
    *,
    json: bool,
) -> int:
    """Draw the team that these manifests declare, and return the exit code."""
    from teamwright.agents.functions.imports import code_not_loaded
    from teamwright.cli.terminal.command_setup import report_unloaded_code
    from teamwright.cli.terminal.team_picture import draw_picture, mermaid as chart, picture_of
    from teamwright.errors import UsageError
    from teamwright.teams.builder import Builder
    from teamwright.teams.team_loader import read_manifest, source_of

    if manifest is None:
        raise UsageError("Name the manifest of the team to draw: a file or a folder.")
    with code_not_loaded():
        loaded = read_manifest([Path(manifest), *(more or ())], models_replaced=model is not None)
        for warning in loaded.warnings:
            say(f"warning: {warning}")
        source = source_of(loaded, team=team, model=model)
        made = Builder(source.manifest, loaded.base).team(source.team)
        picture = picture_of(made)
    code = report_unloaded_code(source.manifest)
    variables = _report_variables(source.manifest)
    if json:
        write_json(picture.to_json() | {"mermaid": chart(picture), "not_loaded": code, "variables": variables}, out)
    else:
        is_chart = out is not None and out.suffix.lower() == MERMAID
        write_result(chart(picture) if is_chart else draw_picture(picture), out)
    return 0


def _report_variables(manifest: Manifest) -> list[JsonValue]:
    """Print which environment variables a run would send where, and return them as data."""
    from teamwright.cli.terminal.command_setup import report_each
    from teamwright.teams.manifests.variable_checks import sent_variables

    return report_each("variable", sent_variables(manifest), "more; see  --json")
