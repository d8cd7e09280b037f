"""The plans that files fix before a run: those of task files, and those of teams with declared steps.

A task file becomes a plan, or a team that executes it, and every mistake is reported with its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import to_json

from teamwright.collector_pauses import collection_paused
from teamwright.documents.fast_reader import read_fast
from teamwright.documents.nodes import (
    Entry,
    Fields,
    Items,
    Node,
    Place,
    ProblemReport,
    Scalar,
    described,
    place_at,
    plain,
    shown,
    sort_problems,
)
from teamwright.documents.reader import ReadLimits, mapping_form, read_file, read_text
from teamwright.documents.schema_check import SchemaCheck
from teamwright.errors import ManifestError, UsageError
from teamwright.strategies.plan.engine import Dag, Single, StarTeam
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.schedule import Fault
from teamwright.strategies.plan.schedule_maker import PlannerSettings, plan_faults
from teamwright.strategies.plan.steps.step_options import STEPS
from teamwright.strategies.registry import find_strategy
from teamwright.teams.manifests.declarations import SECTIONS, Declaration, Declarations
from teamwright.values.names import suggest_name
from teamwright.values.specs.manifest import TeamSpec
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.validation_messages import misfits_of

TASKS = "tasks"

LIMITS = ReadLimits(size=32 << 20, nodes=4_000_000, characters=64 << 20)

MANIFEST_PARTS = {*SECTIONS, "apiVersion"}

HINT = "a task file has  tasks: [{id: …, needs: […]}]"

FORM = mapping_form((TASKS, *MANIFEST_PARTS), "This is neither a task file nor a manifest", HINT)

MAX_PARALLEL = "max_parallel"


def read_plan(path: Path) -> Plan | None:
    """Read the plan of a task file; None if the file has no tasks, because it may be a manifest.

    Raises `ManifestError` with every problem.
    """
    with collection_paused():
        return _read_fast(path) or _read_with_places(path)


def _read_fast(path: Path) -> Plan | None:
    """The plan of a plain file without mistakes; None for any other file."""
    text = read_text(path, ProblemReport(), LIMITS)
    found = None if text is None else read_fast(text, LIMITS)
    if not isinstance(found, dict) or found.keys() != {TASKS}:
        return None
    try:
        plan = Plan.model_validate_json(to_json(found), strict=True)
    except ValueError:
        return None
    return None if plan_faults(plan.steps) else plan


def _read_with_places(path: Path) -> Plan | None:
    """The plan of a file, read with places, so that mistakes can be reported."""
    report = ProblemReport()
    documents = read_file(path, report, LIMITS, form=FORM)
    holders = [one for one in documents if isinstance(one, Fields) and TASKS in one.entries]
    if not report.problems and not holders:
        if any(isinstance(one, Fields) and one.entries.keys() & MANIFEST_PARTS for one in documents):
            return None
        report.problem(documents[0].place, "This is neither a task file nor a manifest", HINT)
    for root in holders:
        _check(root, report)
    if holders and len(documents) > 1:
        report.problem(documents[1].place, "A task file has one document, and this is another one", "remove it")
    plan = None if report.problems else _build(holders[0], report)
    if plan is None:
        raise ManifestError(sort_problems(report.problems, [str(path)]))
    return plan


def team_for_tasks(root: Fields, file: Path, declared: Declarations) -> Declaration:
    """The team that executes the tasks of a document. It has the name of the file, and the agents of tasks as members.

    If some task names no agent, all declared agents are members, and the first one is the hub.
    """
    tasks = root.entries[TASKS]
    place, strategy = tasks.place, Dag.name
    members: dict[str, Node] = {}
    open_to_all = False
    for item in tasks.node.items if isinstance(tasks.node, Items) else ():
        named = (item.text("agent") or item.text("id")) if isinstance(item, Fields) else None
        if named is None or not isinstance(item, Fields):
            continue
        members.setdefault(str(named.value), named)
        open_to_all |= not (item.has("agent") or named.value in declared.agents or named.value in declared.teams)
    if open_to_all and declared.agents:
        strategy = StarTeam.name if len(declared.agents) > 1 else Single.name
        members = {name: node for name, node in members.items() if name in declared.teams}
        members = {name: Scalar(name, place) for name in declared.agents} | members
    steps = Fields({"steps": Entry(TASKS, place, tasks.node)}, place)
    parts: dict[str, Node] = {
        "strategy": Scalar(strategy, place),
        "members": Items(tuple(members.values()), place),
        "options": steps,
    }
    fields = Fields({key: Entry(key, place, node) for key, node in parts.items()}, place)
    return Declaration("team", suggest_name(file.stem), place, fields, file.parent)


def _check(root: Fields, report: ProblemReport) -> None:
    for name, entry in root.entries.items():
        if name != TASKS and name not in SECTIONS and not name.startswith("x-"):
            hint = report.near(name, [TASKS])
            report.problem(entry.place, f"{shown(name)} is not a field of a task file", hint)
    tasks = root.entries[TASKS].node
    if not isinstance(tasks, Items) or not tasks.items:
        found = "an empty list" if isinstance(tasks, Items) else described(tasks)
        report.problem(tasks.place, f"'tasks' expects a list of tasks, found {found}", HINT)
        return
    for number, item in enumerate(tasks.items, start=1):
        SchemaCheck(_words(item, number), report, _definitions()).check(item, _schema())
    _check_graph(tasks, report)


def _check_graph(tasks: Items, report: ProblemReport) -> None:
    """Report problems of the graph of steps, as far as the steps can be read."""
    items: list[Fields] = []
    steps: list[Step] = []
    for item in tasks.items:
        if not isinstance(item, Fields) or (named := item.text("id")) is None:
            continue  # reported before
        if not named.value:
            report.problem(named.place, "a task has no id", "give it one")
            continue
        items.append(item)
        needs, owns = ([text for text, _ in item.texts(name)] for name in ("needs", "owns"))
        steps.append(Step.model_construct(id=str(named.value), needs=tuple(needs), owns=tuple(owns)))
    for fault in plan_faults(steps):
        report.problem(_place(items[fault.step], fault), fault.text)


def _place(item: Fields, fault: Fault) -> Place:
    if fault.need is None:
        return item.entries["id"].node.place
    return [place for _, place in item.texts("needs")][fault.need]


def _build(root: Fields, report: ProblemReport) -> Plan | None:
    tasks = root.entries[TASKS].node
    data = {"steps": plain(tasks)}
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        for one in misfits_of(error, data):
            report.problem(place_at(tasks, one.at[1:]), str(one))
        return None


def _words(item: Node, number: int) -> str:
    named = item.text("id") if isinstance(item, Fields) else None
    return f"task {shown(str(named.value))}" if named is not None and named.value else f"task {number}"


@cache
def _schema() -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", Step.model_json_schema())


def _definitions() -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", _schema().get("$defs", {}))


def preview_plan(name: str, spec: TeamSpec | None, task: str | None = None) -> tuple[Plan, PlannerSettings]:
    """Return the plan of a team, with its task for steps that have none, and the settings that the team declares.

    Raises `UsageError` if no manifest can say what the steps are. Without a spec, the name is that of an agent.
    """
    if spec is None:
        raise UsageError(f"{name!r} is an agent, so its steps are not known in advance: {_instead()}")
    # A class of the user is imported only where the team is built.
    options = None if ":" in spec.strategy else find_strategy(spec.strategy).options
    if options is None or STEPS not in options.model_fields:
        raise UsageError(
            f"{name!r} uses the strategy {spec.strategy!r}, so its steps are not known in advance: {_instead()}"
        )
    read = options.model_validate(spec.options)
    found = _steps(read)
    if not found:
        raise UsageError(
            f"{name!r} declares no `{STEPS}`, so its steps are not known in advance: its members plan when it runs;"
            " `teamwright show` draws the team."
        )
    steps = [step.model_copy(update={"task": step.task or task}) for step in found]
    own = {one: spec.options[one] for one in PlannerSettings.model_fields if spec.options.get(one) is not None}
    if MAX_PARALLEL not in options.model_fields or (isinstance(read, PlanOptions) and read.sees == "all"):
        own[MAX_PARALLEL] = 1  # its steps never run side by side
    return Plan(steps=tuple(steps)), PlannerSettings.model_validate(own)


def _steps(options: BaseModel) -> list[Step]:
    found = dict(options)[STEPS]
    return [one for one in cast("tuple[object, ...]", found) if isinstance(one, Step)]


def _instead() -> str:
    fixed = f"a team with fixed `{STEPS}`, such as `strategy: {Dag.name}`"
    return f"plan a task file, or {fixed}; `teamwright show` draws any team."
