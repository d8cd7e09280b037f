"""What models may write of a plan, and how it becomes a change.

A model sets no limits, owned keys or checks that run code: those of an existing phase stay. The milestones that it
sets are questions to the lead, or to another member about the work of the lead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar, cast

from pydantic import Field, JsonValue, TypeAdapter

from teamwright.strategies.hierarchical import LenientValue
from teamwright.strategies.plan.change import PlanChange
from teamwright.strategies.plan.plan_check import task_of_model
from teamwright.strategies.reply_parsing import ParseFailure, candidate_values, read_answer
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import Merge, Parallel, Part, Plan, Roster, Step
from teamwright.values.turns.turn import Reply

F = TypeVar("F", bound=LenientValue)

FORM = """\
Each phase is an object: "id", "task", "agent" (the member), "needs" (ids of phases before it) and optionally "name" \
and "milestone" (questions that its result has to pass). With "parallel": "subtask_parallel" it has "parts" instead of \
"agent", each with "id", "agent" and "task"; with "parallel": "competitive_parallel" it has "agents", who all do the \
same task, "merge" ("best", "vote" or "fusion") and optionally "enough" (how many answers end it early)."""
CHANGE = "plan_change"
"""The field under which a member proposes a change of the plan in its reply."""


class PartDraft(LenientValue):
    """A part of a phase."""

    id: str
    agent: str
    task: str | None = None

    def part(self) -> Part:
        """Return the part."""
        return Part(id=self.id, agent=self.agent, task=None if self.task is None else task_of_model(self.task))


class PhaseDraft(LenientValue):
    """A phase as a model writes it."""

    id: str
    name: str = ""
    task: str | None = None
    agent: str | None = None
    agents: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    parallel: Parallel = "serial"
    merge: Merge = "best"
    enough: int | None = Field(default=None, ge=1)
    parts: tuple[PartDraft, ...] = ()
    milestone: tuple[str, ...] = ()

    def phase(self, before: Step | None, team: Roster) -> Step:
        """Return the phase, with what only people set of the one before it."""
        fields = self.model_dump(exclude_unset=True, exclude={"milestone", "parts"})
        if self.parallel != "competitive_parallel":
            fields.pop("merge", None)
        if self.task is not None:
            fields["task"] = task_of_model(self.task)
        parts = tuple(one.part() for one in self.parts)
        kept = {} if before is None else {name: getattr(before, name) for name in before.model_fields_set & KEPT}
        questions = [text for text in self.milestone if text.strip()]
        phase = Step(**fields, **({"parts": parts} if parts else {}), **kept)
        if not questions or "evaluate" in kept:
            return phase
        asked = [Criterion(id=f"q{number}", judge=text) for number, text in enumerate(questions, start=1)]
        milestone = Evaluate(judge=_judge_of(phase, team), criteria=tuple(asked))
        return phase.model_copy(update={"evaluate": milestone})


def _judge_of(phase: Step, team: Roster) -> str:
    """Return the lead, or the first member who is no author of the phase where the lead is one."""
    authors = phase.authors(team)
    return next((name for name in (team.lead, *team.workers) if name not in authors), team.lead)


KEPT = frozenset(("limits", "owns", "evaluate", "when", "priority", "execution_tokens", "coordination_tokens"))
"""Fields of a phase that only people set."""


class PlanDraft(LenientValue):
    """A whole plan."""

    steps: tuple[PhaseDraft, ...] = Field(min_length=1)


class ChangeDraft(LenientValue):
    """A change of the plan; one without content leaves it as it is."""

    put: tuple[PhaseDraft, ...] = ()
    remove: tuple[str, ...] = ()
    reason: str = ""

    def change(self, plan: Plan, team: Roster) -> PlanChange:
        """Return the change of this plan."""
        put = tuple(one.phase(plan.by_id.get(one.id), team) for one in self.put)
        return PlanChange(put=put, remove=self.remove, reason=self.reason)


class ReplyWithChange(LenientValue):
    """A reply that proposes a change."""

    plan_change: ChangeDraft


class AnswerChoice(LenientValue):
    """The answer that a member prefers, and why."""

    winner: str
    reason: str = ""


class Approval(LenientValue):
    """What the lead decides about a proposal."""

    approve: bool
    reason: str = ""


def read_form(reply: Reply, form: type[F]) -> F | ParseFailure:
    """Return the one value of a form in a reply."""
    return read_answer(reply, cast("TypeAdapter[F]", _adapter(form)))


@cache
def _adapter(form: type[LenientValue]) -> TypeAdapter[LenientValue]:
    return TypeAdapter(form)


def plan_schema(members: Sequence[str]) -> JsonSchema:
    """Return the JSON Schema of a plan for these members."""
    return _with_members(PlanDraft, tuple(members))


def change_schema(members: Sequence[str]) -> JsonSchema:
    """Return the JSON Schema of a change for these members."""
    return _with_members(ChangeDraft, tuple(members))


def choice_schema(names: Sequence[str]) -> JsonSchema:
    """Return the JSON Schema of a choice between these answers."""
    winner: JsonValue = {"type": "string", "enum": list[JsonValue](names)}
    text: JsonValue = {"type": "string"}
    return {"type": "object", "properties": {"winner": winner, "reason": text}, "required": ["winner", "reason"]}


APPROVAL_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approve", "reason"],
}


@cache
def _with_members(form: type[LenientValue], members: tuple[str, ...]) -> JsonSchema:
    """Return the schema of a form whose agents are these members."""
    schema = form.model_json_schema()
    for draft in cast("dict[str, dict[str, dict[str, JsonValue]]]", schema["$defs"]).values():
        named: JsonValue = {"type": "string", "enum": list[JsonValue](members)}
        fields = draft["properties"]
        fields.update({"agent": named} if "agent" in fields else {})
        fields.update({"agents": {"type": "array", "items": named}} if "agents" in fields else {})
    return schema


def example_reply(schema: Mapping[str, JsonValue]) -> JsonValue:
    """Return data that fits one of these schemas: a phase for each member, no change, or the first answer."""
    fields = cast("dict[str, dict[str, JsonValue]]", schema.get("properties", {}))
    if "winner" in fields:
        return {"winner": cast("list[JsonValue]", fields["winner"]["enum"])[0], "reason": "It is the first."}
    if "approve" in fields:
        return {"approve": True, "reason": "It helps."}
    if "put" in fields:
        return {}
    if "steps" not in fields:
        return None
    drafts = cast("dict[str, dict[str, dict[str, dict[str, JsonValue]]]]", schema["$defs"])
    members = cast("list[str]", drafts["PhaseDraft"]["properties"]["agent"]["enum"])
    return {"steps": [{"id": f"phase-{place}", "agent": name} for place, name in enumerate(members, start=1)]}


def read_choice(reply: Reply, names: Sequence[str]) -> AnswerChoice | ParseFailure:
    """Return the choice in a reply, if it names one of these answers."""
    choice = read_form(reply, AnswerChoice)
    if isinstance(choice, ParseFailure):
        return choice
    if (name := choice.winner.strip()) not in names:
        return ParseFailure(f"it names {name!r}, and the answers are {', '.join(names)}")
    return choice.model_copy(update={"winner": name})


def proposal_in(reply: Reply) -> ChangeDraft | ParseFailure | None:
    """Return the change that a reply proposes; None if it proposes none."""
    full = reply.full
    if CHANGE not in full.text and not (isinstance(full.data, dict) and CHANGE in full.data):
        return None
    if not any(isinstance(one, dict) and CHANGE in one for found in candidate_values(full) for one in found):
        return None
    found = read_form(full, ReplyWithChange)
    return found if isinstance(found, ParseFailure) else found.plan_change
