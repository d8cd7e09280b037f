"""The steps of a plan for a page, read from a recorded plan or from the options of a team."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from pydantic import JsonValue

from teamwright.server.page.page_events import PagePart, PagePlanStep, StepState
from teamwright.server.page.projection.looks import fields_of
from teamwright.values.secrets.patterns import mask_text

MODES: Mapping[str, Literal["subtasks", "compete"]] = {
    "subtask_parallel": "subtasks",
    "competitive_parallel": "compete",
}
STATES: Mapping[str, StepState] = {
    "pending": "pending",
    "in_progress": "running",
    "completed": "completed",
    "skipped": "skipped",
    "failed": "failed",
}
"""The states of a page's steps by the status of a phase."""

ExpertId = Callable[[str], str]
"""Returns the id of the expert with a name."""


def plan_steps(plan: JsonValue, states: Mapping[str, StepState], expert_id: ExpertId) -> Iterator[PagePlanStep]:
    """Yield the steps of a plan; a step that has no status of its own has its state in `states`."""
    steps = fields_of(plan).get("steps")
    for step in map(fields_of, steps if isinstance(steps, list) else ()):
        if id := _text(step, "id"):
            yield _step(id, step, states, expert_id)


def _step(id: str, step: Mapping[str, JsonValue], states: Mapping[str, StepState], expert_id: ExpertId) -> PagePlanStep:
    parts = tuple(_parts(step, expert_id))
    named = (*_texts(step, "agents"), *filter(None, (_text(step, "agent"), _text(step, "role"))))
    priority = step.get("priority")
    return PagePlanStep(
        id=id,
        name=mask_text(_text(step, "name")) or id,
        task=mask_text(_text(step, "task")),
        assignees=tuple(dict.fromkeys(part.assignee for part in parts)) or tuple(map(expert_id, named)),
        needs=_texts(step, "needs"),
        state=states.get(id) or STATES.get(_text(step, "status"), "pending"),
        mode=MODES.get(_text(step, "parallel"), "single"),
        merge=_text(step, "merge"),
        milestone=bool(step.get("evaluate")),
        parts=parts,
        owns=tuple(map(mask_text, _texts(step, "owns"))),
        when=mask_text(_text(step, "when")),
        priority=priority if isinstance(priority, int) else 0,
    )


def _parts(step: Mapping[str, JsonValue], expert_id: ExpertId) -> Iterator[PagePart]:
    parts = step.get("parts")
    for part in map(fields_of, parts if isinstance(parts, list) else ()):
        yield PagePart(
            id=_text(part, "id"), assignee=expert_id(_text(part, "agent")), task=mask_text(_text(part, "task"))
        )


def _text(fields: Mapping[str, JsonValue], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _texts(fields: Mapping[str, JsonValue], name: str) -> tuple[str, ...]:
    value = fields.get(name)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
