"""Reads a file of tasks into a plan, with every mistake told at its place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from pydantic import JsonValue, ValidationError

from teamwright.errors import ManifestError
from teamwright.planning.graph import Fault
from teamwright.planning.planner import plan_faults
from teamwright.teams.manifest.native import SECTIONS
from teamwright.teams.manifest.nodes import Fields, Items, Node, Place, described, plain, shown
from teamwright.teams.manifest.reader import Room, read_file
from teamwright.teams.manifest.report import Report, in_order
from teamwright.teams.manifest.shape import Shape
from teamwright.values.plan import Plan, Step

TASKS = "tasks"
ROOM = Room(size=32 << 20, nodes=4_000_000, characters=64 << 20)
MANIFEST_PARTS = {*SECTIONS, "apiVersion"}
HINT = "a file of tasks has  tasks: [{id: …, needs: […]}]"


def read_plan(path: Path) -> Plan | None:
    """The plan of a file of tasks; None where the file holds no tasks, since it may be a manifest.

    Raises `ManifestError` with every problem.
    """
    report = Report()
    documents = read_file(path, report, ROOM)
    holders = [one for one in documents if isinstance(one, Fields) and TASKS in one.entries]
    if not report.problems and not holders:
        if any(isinstance(one, Fields) and one.entries.keys() & MANIFEST_PARTS for one in documents):
            return None
        report.problem(documents[0].place, "This is neither a file of tasks nor a manifest", HINT)
    for root in holders:
        _check(root, report)
    if holders and len(documents) > 1:
        report.problem(documents[1].place, "A file of tasks is one document, and here begins another", "remove it")
    plan = None if report.problems else _built(holders[0], report)
    if plan is None:
        raise ManifestError(in_order(report.problems, [str(path)]))
    return plan


def _check(root: Fields, report: Report) -> None:
    for name, entry in root.entries.items():
        if name != TASKS and not name.startswith("x-"):
            hint = report.near(name, [TASKS])
            report.problem(entry.place, f"{shown(name)} is not a part of a file of tasks", hint)
    tasks = root.entries[TASKS].node
    if not isinstance(tasks, Items) or not tasks.items:
        found = "an empty list" if isinstance(tasks, Items) else described(tasks)
        report.problem(tasks.place, f"'tasks' expects a list of tasks, found {found}", HINT)
        return
    for number, item in enumerate(tasks.items, start=1):
        Shape(_words(item, number), report, {}).check(item, _schema())
    _check_graph(tasks, report)


def _check_graph(tasks: Items, report: Report) -> None:
    """What is wrong with the steps together, as far as each can be read."""
    items: list[Fields] = []
    steps: list[Step] = []
    for item in tasks.items:
        if not isinstance(item, Fields) or (named := item.text("id")) is None:
            continue  # told of already
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


def _built(root: Fields, report: Report) -> Plan | None:
    try:
        return Plan.model_validate({"steps": plain(root.entries[TASKS].node)})
    except ValidationError as error:
        for mistake in error.errors(include_url=False, include_input=False):
            where = ".".join(str(step) for step in mistake["loc"])
            report.problem(root.place, f"{where}: {mistake['msg']}")
        return None


def _words(item: Node, number: int) -> str:
    named = item.text("id") if isinstance(item, Fields) else None
    return f"task {shown(str(named.value))}" if named is not None and named.value else f"task {number}"


@cache
def _schema() -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", Step.model_json_schema())
