"""Loads manifests: reads files and folders into one checked `Manifest`, or raises every mistake at once.

Paths in declarations are moved, so that they are relative to the folder of the first file. Agents that are experts are
expanded once, here: a run records the result, so no later change of a template reaches it.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import JsonValue, ValidationError

from teamwright.agents.functions.imports import modules_of
from teamwright.agents.tools.registry import find_kind, kinds_in
from teamwright.documents.nodes import Fields, Node, Place, ProblemReport, described, place_at, plain, sort_problems
from teamwright.documents.reader import mapping_form, read_file
from teamwright.errors import ManifestError, Problem
from teamwright.teams.manifests.ark_documents import ArkReader, is_ark, is_kubernetes
from teamwright.teams.manifests.ark_fields import ArkNames
from teamwright.teams.manifests.declarations import SECTIONS, Declaration, Declarations, Query, read_native
from teamwright.teams.manifests.environment_variables import misdirected_keys_in
from teamwright.teams.manifests.plans import TASKS, team_for_tasks
from teamwright.teams.manifests.reference_checks import ANSWERERS, check, check_model_settings, default_model
from teamwright.teams.manifests.variable_checks import check_environment, check_imports, check_variables
from teamwright.values.names import plain_strategy_name
from teamwright.values.specs.manifest import Manifest
from teamwright.values.specs.tools import moved_sandboxes
from teamwright.values.text.validation_messages import misfits_of
from teamwright.wings import absent_words, hooks

SUFFIXES = {".yaml", ".yml"}

PARTS = (*SECTIONS, TASKS, "rules", "apiVersion", "kind")

FORM = mapping_form(
    PARTS,
    "This is not a manifest: a manifest is a mapping with agents and teams",
    f"its sections are {', '.join(SECTIONS)}",
)

SCRIPTED, LOCAL = "scripted", "local"

Move = Callable[[str, str], str]
"""Returns the new path for what names it, `scripted`, `local` or a kind of tool, and for the path as written."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A manifest with `${NAME}` unresolved, its warnings and queries, and the base of its relative paths."""

    manifest: Manifest
    warnings: tuple[Problem, ...]
    queries: Mapping[str, Query]
    base: Path
    files: tuple[Path, ...]
    places: Mapping[str, Place]
    """Where each agent and each team is declared."""


def load(paths: Sequence[Path], *, models_replaced: bool = False, thorough: bool = False) -> Loaded:
    """Load all files and folders together, or raise `ManifestError` with every problem.

    With `models_replaced`, agents need no model, because the caller replaces all models (`--model`). A `thorough` load
    also imports functions, reads scripts and checks the variables of the environment.
    """
    report = ProblemReport()
    files = _files(paths, report)
    base = base_of(paths)
    with modules_of(base):
        declared = _read_declarations(files, report, models_replaced=models_replaced)
        check(declared, report, models_replaced=models_replaced)
        check_model_settings(declared, report)
        check_variables(declared, report)
        if thorough:
            check_environment(declared, report, models_replaced=models_replaced)
            check_imports(declared, report, models_replaced=models_replaced)
    if not report.problems and not any(declared):
        report.problem(
            Place(str(paths[0]) if paths else ""), "Nothing is declared here", "a manifest has agents and teams"
        )
        report.problems.extend(report.warnings)
    order = [str(file) for file, _ in files]
    if not report.problems:
        manifest = _build(declared, base, report)
        if manifest is not None and thorough:
            _check_keys(manifest, declared, report)
        if manifest is not None and not report.problems:
            found = tuple(file for file, _ in files)
            places = {one.name: one.place for one in (*declared.agents.values(), *declared.teams.values())}
            return Loaded(manifest, sort_problems(report.warnings, order), declared.queries, base, found, places)
    raise ManifestError(sort_problems(report.problems, order))


def _files(paths: Sequence[Path], report: ProblemReport) -> list[tuple[Path, bool]]:
    """Each file once, and whether it was found in a folder."""
    files: dict[Path, bool] = {}
    for path in paths:
        try:
            if not path.is_dir():
                files[path] = False
                continue
            found = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES and not one.name.startswith("."))
        except (OSError, ValueError) as error:
            report.problem(Place(str(path)), f"The folder can't be read: {error}")
            continue
        if not found:
            report.problem(Place(str(path)), "The folder has no YAML files", "name them .yaml or .yml")
        for one in found:
            if one.is_file():
                files.setdefault(one, True)
    return list(files.items())


def base_of(paths: Sequence[Path]) -> Path:
    """The base folder of a manifest's relative paths and Python modules."""
    if not paths:
        return Path.cwd()
    return paths[0] if os.path.isdir(paths[0]) else paths[0].parent  # noqa: PTH112 - accepts any path, even one with NUL


def _read_declarations(
    files: Sequence[tuple[Path, bool]], report: ProblemReport, *, models_replaced: bool
) -> Declarations:
    """Read all documents, native ones first, because they may supply the tools of ARK documents."""
    declared = Declarations()
    foreign: list[tuple[Fields, Path]] = []
    planned: list[tuple[Fields, Path]] = []
    for file, in_folder in files:
        before = len(report.problems)
        documents = read_file(file, report, form=FORM)
        _downgrade_foreign_problems(documents, report, before)
        for document in documents:
            root = _root(document, report, in_folder=in_folder)
            if root is None:
                continue
            if is_kubernetes(root):
                foreign.append((root, file.parent))
                continue
            if TASKS in root.entries:
                planned.append((root, file))
            read_native(root.without(TASKS), file.parent, declared, report)
    names = ArkNames.of((root for root, _ in foreign if is_ark(root)), report)
    reader = ArkReader(names, declared, report, models_replaced)
    for root, folder in foreign:
        reader.read(root, folder)
    for root, file in planned:
        declared.add(team_for_tasks(root, file, declared), report)
    expand_experts(declared, report)
    return declared


def _downgrade_foreign_problems(documents: Sequence[Node], report: ProblemReport, before: int) -> None:
    """Turn problems in documents of other software, such as a ConfigMap, into warnings."""
    found = report.problems[before:]
    if not found:
        return
    starts = [document.place.line for document in documents]
    other = [isinstance(one, Fields) and is_kubernetes(one) and not is_ark(one) for one in documents]
    del report.problems[before:]
    for problem in found:
        index = bisect_right(starts, problem.line) - 1
        (report.warnings if index >= 0 and other[index] else report.problems).append(problem)


def _root(document: Node, report: ProblemReport, *, in_folder: bool) -> Fields | None:
    if not isinstance(document, Fields):
        message = f"A manifest is a mapping with agents and teams, and this is {described(document)}"
        report.problem(document.place, message)
        return None
    if "rules" in document.entries and not document.entries.keys() & {"agents", "teams", "apiVersion", "kind"}:
        # A folder may hold scripted replies next to the manifests that use them.
        if not in_folder:
            hint = f"use it with  --model scripted:{document.place.file}"
            report.problem(document.key_place("rules"), "This is a file of scripted replies, not a manifest", hint)
        return None
    return document


def _build(declared: Declarations, base: Path, report: ProblemReport) -> Manifest | None:
    model = default_model(declared)
    data: dict[str, dict[str, JsonValue]] = {"agents": {}, "teams": {}, "models": {}, "tools": {}}
    for one in declared:
        data[f"{one.kind}s"][one.name] = _value(one, base, model)
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        owners = {(f"{one.kind}s", one.name): one for one in declared}
        for one in misfits_of(error, data):
            section, name = (*map(str, one.at[:2]), "", "")[:2]
            owner = owners.get((section, name))
            place = place_at(owner.node, one.at[2:]) if owner else Place("")
            report.problem(place, str(one))
        return None


def _check_keys(manifest: Manifest, declared: Declarations, report: ProblemReport) -> None:
    """Report each key of a provider that a run would send elsewhere; a run refuses it as well, without a position."""
    sections = {"agents": declared.agents, "teams": declared.teams, "models": declared.models, "tools": declared.tools}
    for use, problem in misdirected_keys_in(manifest):
        owner = sections[use.path[0]].get(use.path[1])
        place = place_at(owner.node, [int(key) if key.isdecimal() else key for key in use.path[2:]]) if owner else None
        report.problem(place or Place(""), problem.message, problem.suggestion)


def _value(one: Declaration, base: Path, model: str | None) -> JsonValue:
    """The plain data of a declaration, with defaults filled in and paths made relative to `base`."""
    value = plain(one.node)
    if one.kind == "agent" and isinstance(value, dict) and not any(value.get(name) is not None for name in ANSWERERS):
        # This model may be undeclared if ARK's cluster or --model supplies it.
        value["model"] = model or "default"
    if one.kind == "team" and isinstance(value, dict) and isinstance(strategy := value.get("strategy"), str):
        value["strategy"] = plain_strategy_name(strategy)
    return relocate(one.kind, value, lambda _, file: _relocate(file, one.folder, base), base.joinpath)


def _relocate(file: str, folder: Path, base: Path) -> str:
    """A path in `folder`, relative to `base`."""
    if folder == base or Path(file).is_absolute() or file.startswith("${"):
        return file
    return Path(os.path.relpath(folder / file, base)).as_posix()


def relocate(kind: str, value: JsonValue, move: Move, folder: Callable[[str], Path] | None = None) -> JsonValue:
    """Return an agent, a team, a model or a tool as declared with its paths moved; `folder` resolves a moved path.

    Without a `folder`, nothing is recorded of the files at these paths.
    """
    if kind == "model":
        return _relocate_model(value, move)
    if kind == "tool":
        return _relocate_tool(value, move, folder)
    if kind not in ("agent", "team") or not isinstance(value, dict):
        return value
    moved = cast("dict[str, JsonValue]", moved_sandboxes(value, lambda path: move("sandbox", path)))
    if kind == "team":
        return moved
    for name in ("model", "economy", "stronger", "fallback"):
        if name in moved:
            moved[name] = _relocate_model(moved[name], move)
    if isinstance(tools := moved.get("tools"), list):
        moved["tools"] = [_relocate_tool(tool, move, folder) for tool in tools]
    return moved


def _relocate_model(model: JsonValue, move: Move) -> JsonValue:
    """A model with its file moved; in the long forms, its name is under `model`."""
    if isinstance(model, dict) and "model" in model:
        return {**model, "model": _relocate_model(model["model"], move)}
    if isinstance(model, str):
        for prefix in (SCRIPTED, LOCAL):
            if model.startswith(f"{prefix}:"):
                return f"{prefix}:{move(prefix, model.removeprefix(f'{prefix}:'))}"
    return model


def _relocate_tool(tool: JsonValue, move: Move, folder: Callable[[str], Path] | None) -> JsonValue:
    if not isinstance(tool, dict):
        return tool
    moved = dict(tool)
    for name in kinds_in(tool):
        kind = find_kind(name)
        settings = kind.relocate(tool[name], lambda file, name=name: move(name, file))
        moved[name] = settings if folder is None else kind.pin(settings, folder)
    return moved


def expand_experts(declared: Declarations, report: ProblemReport) -> None:
    """Expand every expert of a manifest; does nothing, and imports nothing, if there is none."""
    experts = [one for one in declared.every("agent") if one.fields.has("expert")]
    if not experts:
        return
    expands = hooks("expand_agents")
    for expand in expands:
        expand(declared, report)
    if not expands:
        for one in experts:
            hint = f"experts need an optional part that is not installed{absent_words()}"
            report.problem(one.fields.key_place("expert"), f"{one.words}: no templates are installed", hint)
