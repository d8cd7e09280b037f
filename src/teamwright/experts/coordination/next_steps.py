"""The decisions of a lead that reacts: the next steps, or that there is enough for the answer.

A step that was done before needs a new reason; so a lead can't repeat itself until its bounds end it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter

from teamwright.experts.coordination.planned_steps import PlannedStep, ReadSteps, checked_steps, roles_in, step_schema
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Reply
from teamwright.values.value import Value

FORM = """\
{"action": "work", "steps": [{"id": NAME, "role": ROLE, "task": TEXT, "needs": [ID, …], "reason": TEXT}, …]}
for steps that run side by side; "needs" are earlier steps whose results they read
{"action": "answer"}
when the results are enough for the answer, which you give next"""
"""The form of a decision, as the prompt shows it."""
REASON: JsonValue = {"type": "string", "description": "why this step comes next; a step that was done needs a new one"}


class NextSteps(Value):
    """What comes next; fields that a model adds are ignored."""

    model_config = ConfigDict(extra="ignore")

    action: Literal["work", "answer"]
    steps: tuple[PlannedStep, ...] = Field(default=())


class StepsSoFar:
    """The steps that were decided on, and the reasons that were given for them."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.with_results: set[str] = set()
        self._reasons: dict[tuple[str, str], set[str]] = {}

    def add(self, steps: Sequence[Step], planned: Sequence[PlannedStep]) -> None:
        """Add steps that are about to start."""
        self.steps += steps
        for step, one in zip(steps, planned, strict=True):
            self._reasons.setdefault(_work(step), set()).add(plain_reason(one.reason))

    def repeated(self, steps: Sequence[Step], planned: Sequence[PlannedStep]) -> list[str]:
        """Return a problem for each step that was done before and has no new reason."""
        return [
            f"the step {step.id!r} repeats an earlier one, which needs a new reason"
            for step, one in zip(steps, planned, strict=True)
            if not self._is_new(step, plain_reason(one.reason))
        ]

    def _is_new(self, step: Step, reason: str) -> bool:
        known = self._reasons.get(_work(step))
        return known is None or bool(reason and reason not in known)


def read_decision(
    reply: Reply, roles: Sequence[str], so_far: StepsSoFar, most: int, *, create_roles: bool
) -> tuple[ReadSteps, tuple[PlannedStep, ...]] | ParseFailure:
    """Return the next steps, none for the answer; or every mistake of the decision, worded for the lead.

    `most` limits how many steps it may still decide on. The answer is given only once a step has ended.
    """
    decision = read_answer(reply, _decision())
    if isinstance(decision, ParseFailure):
        return decision
    if decision.action == "answer":
        return (ReadSteps(()), ()) if so_far.steps else ParseFailure("no step was done yet; decide on one")
    if not decision.steps:
        return ParseFailure("it has no steps")
    if len(decision.steps) > most:
        return ParseFailure(f"it has {len(decision.steps)} steps, and at most {most} more are allowed")
    read = checked_steps(decision.steps, roles, so_far.steps, create_roles=create_roles)
    if isinstance(read, str):
        return ParseFailure(read)
    unknown = [
        f"the step {step.id!r} needs {need!r}, which has no result"
        for step in read.steps
        for need in step.needs
        if need not in so_far.with_results
    ]
    if problems := [*unknown, *so_far.repeated(read.steps, decision.steps)]:
        return ParseFailure("; ".join(problems))
    return read, decision.steps


def decision_schema(roles: Sequence[str], *, create_roles: bool) -> JsonSchema:
    """Return the JSON Schema of a decision."""
    step = step_schema(roles, create_roles=create_roles)
    step["properties"] = {**cast("dict[str, JsonValue]", step["properties"]), "reason": REASON}
    return {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["work", "answer"]},
            "steps": {"type": "array", "items": step, "description": "with work: what comes next"},
        },
        "required": ["action"],
    }


def example_decision(schema: Mapping[str, JsonValue], number: int) -> JsonValue:
    """Return a decision that matches `decision_schema`: a step for each role, then the answer; else None."""
    roles = roles_in(dict(schema))
    if not any(schema == decision_schema(roles, create_roles=create) for create in (False, True)):
        return None
    if number > 1:
        return {"action": "answer"}
    return {
        "action": "work",
        "steps": [{"id": f"step-{place}", "role": role, "task": "Your part."} for place, role in enumerate(roles, 1)],
    }


def _work(step: Step) -> tuple[str, str]:
    """Return what a step does: its role and its task."""
    return step.role or "", plain_reason(step.task or "")


def plain_reason(text: str) -> str:
    """Return a text without what makes no other reason of it: case and blanks."""
    return " ".join(text.casefold().split())


@cache
def _decision() -> TypeAdapter[NextSteps]:
    return TypeAdapter(Annotated[NextSteps, BeforeValidator(_normalized)])


def _normalized(value: object) -> object:
    """Return a decision in the expected form: the action in lower case, a single step as a list."""
    if not isinstance(value, Mapping):
        return value
    fields = dict(cast("Mapping[str, object]", value))
    action, steps = fields.get("action"), fields.get("steps")
    if isinstance(action, str):
        fields["action"] = action.strip().lower()
    if isinstance(steps, Mapping):
        fields["steps"] = [cast("object", steps)]
    return fields
