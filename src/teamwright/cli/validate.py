"""`teamwright validate` and `teamwright schema`: check manifests without running them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.errors import problem_json
from teamwright.cli.terminal.options import AllowRoot, ManifestPath, Model, With
from teamwright.cli.terminal.output import Json, Out, check_out, redirect_prints, say, write_json, write_result

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.cli.terminal.command_setup import ManifestArguments
    from teamwright.errors import Problem
    from teamwright.teams.manifests.manifest_loader import Loaded

MANIFEST, ENVELOPE = "manifest", "envelope"
"""The schemas that `teamwright schema` prints."""


def validate(
    manifest: ManifestPath,
    more: With = None,
    model: Model = None,
    no_import: Annotated[
        bool, typer.Option("--no-import", help="List the code that the manifest names instead of loading it.")
    ] = False,
    allow_root: AllowRoot = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Check a manifest and report every mistake at once, with its line and column.

    Functions and strategies that it names are imported, as python would: for a manifest that you do not trust, use
    --no-import.

    Example:
      teamwright validate team.yaml --no-import
    """
    from teamwright.cli.terminal.command_setup import report_unloaded_code

    check_out(out)
    paths, roots = [manifest, *(more or ())], tuple(allow_root or ())
    loaded = _check_without_code(paths, model, roots) if no_import else _check(paths, model, roots)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    code = report_unloaded_code(loaded.manifest) if no_import else []
    if json:
        write_json(_to_json(loaded) | ({"not_loaded": code} if no_import else {}), out)
    else:
        write_result(_summary(loaded), out)
    return 0


def schema(
    what: Annotated[str, typer.Argument(metavar="[WHAT]", help="manifest (the default) or envelope.")] = MANIFEST,
    json: Json = False,  # noqa: ARG001 - a schema is always JSON
    out: Out = None,
) -> int:
    """Print the JSON Schema of manifests, for editors, or of envelopes.

    Examples:
      teamwright schema --out manifest.schema.json
      teamwright schema envelope
    """
    from teamwright.errors import UnknownName

    check_out(out)
    if what not in (MANIFEST, ENVELOPE):
        raise UnknownName("schema", what, (MANIFEST, ENVELOPE))
    write_json(_schema(what), out)
    return 0


def _schema(what: str) -> dict[str, JsonValue]:
    if what == ENVELOPE:
        from teamwright.values.turns.messages import envelope_schema

        return envelope_schema()
    from teamwright.teams.manifests.schema import manifest_schema

    return manifest_schema()


@contextmanager
def validate_on_error(paths: Sequence[Path], model: str | None, allow_roots: Sequence[Path] = ()) -> Generator[None]:
    """After a UsageError in the block, report every mistake in the manifest, as `validate` would."""
    from teamwright.errors import UsageError

    try:
        yield
    except UsageError:
        if paths:
            _check(paths, model, allow_roots)
        raise


def start_checked(chosen: ManifestArguments, run_id: str | None, start: Callable[[], Awaitable[int]]) -> int:
    """Start a run of a team. Only results go to stdout, and an invalid manifest is reported with every mistake."""
    from teamwright.cli.terminal.command_setup import check_new_id, run_on_loop

    check_new_id(run_id)
    with redirect_prints(), validate_on_error(list(chosen.paths), chosen.model, chosen.allow_roots):
        return run_on_loop(start)


def _check(paths: Sequence[Path], model: str | None, allow_roots: Sequence[Path]) -> Loaded:
    """Return the valid manifest, or raise every mistake at once; needs no environment variables."""
    from teamwright.cli.terminal.command_setup import extend_sys_path

    extend_sys_path()
    return _read(paths, model, allow_roots)


def _check_without_code(paths: Sequence[Path], model: str | None, allow_roots: Sequence[Path]) -> Loaded:
    """Check as much as possible without importing the code that the manifest names."""
    from teamwright.agents.functions.imports import code_not_loaded

    with code_not_loaded():
        return _read(paths, model, allow_roots)


@redirect_prints()
def _read(paths: Sequence[Path], model: str | None, allow_roots: Sequence[Path]) -> Loaded:
    from teamwright.errors import ManifestError
    from teamwright.teams.team_loader import read_manifest

    problems = _problems_of(model) if model is not None else []
    try:
        loaded = read_manifest(paths, models_replaced=model is not None, thorough=True)
    except ManifestError as error:
        raise ManifestError([*problems, *error.problems]) from error
    if problems := problems or _build(loaded, model, allow_roots):
        raise ManifestError(problems)
    return loaded


def _problems_of(model: str) -> list[Problem]:
    """The problems of the model that replaces every other one."""
    from teamwright.agents.scripted import Script
    from teamwright.errors import ManifestError, Problem, UsageError
    from teamwright.teams.builder import SCRIPTED
    from teamwright.teams.team_loader import resolve_model

    try:
        whole = resolve_model(model)
        if isinstance(whole, str) and whole.startswith(SCRIPTED):
            Script.load(Path(whole.removeprefix(SCRIPTED)))
    except ManifestError as error:
        return list(error.problems)
    except UsageError as error:
        return [Problem(str(error))]
    return []


def _build(loaded: Loaded, model: str | None, allow_roots: Sequence[Path]) -> list[Problem]:
    """Build every agent and every team once, and return the problems that this finds, each with its place."""
    from teamwright.agents.functions.imports import modules_of
    from teamwright.errors import ManifestError, Problem, UsageError
    from teamwright.journal.location import database_url
    from teamwright.runtime.placement import require_no_placement
    from teamwright.teams.builder import Builder, allowed_roots, replace_models
    from teamwright.teams.preflight import check_sandbox_names
    from teamwright.teams.team import Team
    from teamwright.teams.team_loader import resolve_model

    manifest = loaded.manifest if model is None else replace_models(loaded.manifest, resolve_model(model))
    builder = Builder(manifest, loaded.base, roots=allowed_roots(loaded.base, loaded.files, allow_roots))
    problems: dict[str, Problem] = {}
    for name in (*manifest.agents, *manifest.teams):
        try:
            with modules_of(loaded.base):
                built = builder.agent(name)
            if isinstance(built, Team):
                check_sandbox_names(built)
                if database_url() is None:
                    require_no_placement([built])
        except UsageError as error:
            for problem in error.problems if isinstance(error, ManifestError) else [Problem(str(error))]:
                problems.setdefault(problem.message, _with_place(problem, name, loaded))
    return list(problems.values())


def _with_place(problem: Problem, name: str, loaded: Loaded) -> Problem:
    """Add the place and the name of an agent or team to a problem that lacks them."""
    if problem.file:
        return problem
    place = loaded.places[name]
    kind = "agent" if name in loaded.manifest.agents else "team"
    message = problem.message if repr(name) in problem.message else f"{kind} {name!r}: {problem.message}"
    return replace(problem, message=message, file=place.file, line=place.line, column=place.column)


def _summary(loaded: Loaded) -> str:
    from teamwright.values.text.display import count_text

    manifest = loaded.manifest
    agents, teams = len(manifest.agents), len(manifest.teams)
    lines = [f"valid: {count_text(agents, 'agent')}, {count_text(teams, 'team')}"]
    lines += [f"  {name}: {team.strategy} of {', '.join(team.members)}" for name, team in manifest.teams.items()]
    from teamwright.teams.builder import programs_without_sandbox

    if found := list(programs_without_sandbox(manifest)):
        lines.append(f"with all your rights: {', '.join(found)}; confine it with  sandbox: auto  there or on a team")
    return "\n".join(lines)


def _to_json(loaded: Loaded) -> dict[str, JsonValue]:
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
