"""What models may write of a plan: the forms that they are asked for, and how their answers are read and repaired.

A model sets no limits, owned keys or checks that run code: those of an existing step stay. What it writes is data: its
texts are never templates. The milestones that it sets are questions to the lead, or to another about the lead's work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar, cast

from pydantic import AliasChoices, ConfigDict, Field, JsonValue, TypeAdapter, model_validator

from teamwright.errors import InvalidName, InvalidValue, nearest
from teamwright.strategies.expressions import literal_template
from teamwright.strategies.plan.plan_change import PlanChange
from teamwright.strategies.plan.schedule_maker import plan_faults
from teamwright.strategies.reply_parsing import MOST_CHARACTERS, ParseFailure, candidate_values, read_answer
from teamwright.values.names import NAME, suggest_name
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import CreatedRole, Merge, Parallel, Part, Plan, Role, Roster, Step
from teamwright.values.turns.turn import Reply
from teamwright.values.typed_data import parse_partial
from teamwright.values.value import Value

T = TypeVar("T", bound="Lenient")

STEP = '{"id": NAME, "role": ROLE, "task": TEXT, "needs": [ID, …]}'
"""The form of a step, as prompts show it."""
NEW_ROLES = "You may make other roles: give such a step  instructions, which say what the role is and does."
SHARED = """\
A step may have "milestone": questions that its result has to pass. With "parallel": "subtask_parallel" it has "parts" \
instead of "role", each with "id", "agent" and "task"; with "parallel": "competitive_parallel" it has "agents", who \
all do the same task, "merge" ("best", "vote" or "fusion") and optionally "enough" (how many answers end it early)."""
CHANGE = "plan_change"
"""The field under which a member proposes a change of the plan in its reply."""
SHOWN_FAULTS = 5
LONGEST_NAME, LONGEST_TASK, MOST_QUESTIONS = 64, 1000, 5
"""How many characters of a name and of a task or another text the schema allows, and how many questions to a step."""
TEXT: JsonValue = {"type": "string", "maxLength": LONGEST_TASK}
NAMED: dict[str, JsonValue] = {"type": "string", "maxLength": LONGEST_NAME}


TEXTS = frozenset(("id", "name", "role", "agent", "task", "description", "instructions", "capability", "reason"))
LISTS = frozenset(("needs", "depends_on", "agents", "milestone", "remove"))
STEP_LISTS = frozenset(("steps", "put"))


def _taken(name: str, value: Any) -> Any:
    """Return what a model means by the value of a field: a number for a text, one value for a list of one."""
    if name in STEP_LISTS:
        return _listed_steps(value)
    if name in TEXTS:
        return _as_text(value[0] if isinstance(value, list) and len(value) == 1 else value)  # pyright: ignore[reportUnknownArgumentType]
    if name in LISTS:
        return [_as_text(one) for one in (value if isinstance(value, list | tuple) else [value])]  # pyright: ignore[reportUnknownVariableType]
    return value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _listed_steps(value: Any) -> Any:
    """Return steps as a list with an id each: of one step, of steps by their ids, or of steps without ids."""
    found: Any = value
    if isinstance(found, Mapping):
        by_id = bool(found) and all(isinstance(one, Mapping) for one in found.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        found = [{"id": id_, **one} for id_, one in found.items()] if by_id else [found]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(found, list):
        return found
    steps = list(cast("list[Any]", found))
    for place, one in enumerate(steps):
        if isinstance(one, Mapping) and not {"id", "name"} & {*cast("Mapping[str, Any]", one)}:
            steps[place] = {"id": f"step-{place + 1}", **cast("Mapping[str, Any]", one)}
    return steps


class Lenient(Value):
    """A value that ignores unknown fields, because models add them, and takes what they write for the form."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _normalized(cls, value: object) -> object:
        """Take steps in any container, an action in any case, and numbers, nothing and single values in their place."""
        has_steps = "steps" in cls.model_fields
        if isinstance(value, Mapping) and has_steps and "steps" not in value and "plan" in value:
            value = cast("Mapping[str, object]", value)["plan"]
        if isinstance(value, list) and has_steps:
            value = {"steps": cast("list[object]", value)}
        if not isinstance(value, Mapping):
            return cast("object", value)
        given = cast("Mapping[str, object]", value).items()
        fields = {name: _taken(name, one) for name, one in given if one is not None}
        action = fields.get("action")
        if isinstance(action, str):
            fields["action"] = action.strip().lower()
        return fields


class PlannedPart(Lenient):
    """A part of a step."""

    id: str
    agent: str = Field(validation_alias=AliasChoices("agent", "role"))
    task: str | None = None


class PlannedStep(Lenient):
    """A step as a model writes it."""

    id: str = Field(min_length=1, validation_alias=AliasChoices("id", "name"))
    role: str = Field(default="", validation_alias=AliasChoices("role", "agent"))
    task: str | None = Field(default=None, validation_alias=AliasChoices("task", "description"))
    needs: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("needs", "depends_on"))
    instructions: str = ""
    capability: str | None = None
    reason: str = ""
    agents: tuple[str, ...] = ()
    parallel: Parallel = "serial"
    merge: Merge = "best"
    enough: int | None = Field(default=None, ge=1)
    parts: tuple[PlannedPart, ...] = ()
    milestone: tuple[str, ...] = ()


class PlannedSteps(Lenient):
    """A plan, what comes next, or what is still to do."""

    steps: tuple[PlannedStep, ...] = Field(min_length=1)
    reason: str = ""


class NextSteps(Lenient):
    """What comes next."""

    action: Literal["work", "answer"]
    steps: tuple[PlannedStep, ...] = ()


class PlannedChange(Lenient):
    """A change of the plan; one without content leaves it as it is."""

    put: tuple[PlannedStep, ...] = ()
    remove: tuple[str, ...] = ()
    reason: str = ""


class ReplyWithChange(Lenient):
    """A reply that proposes a change."""

    plan_change: PlannedChange


class Approval(Lenient):
    """What the lead decides about a proposal."""

    approve: bool
    reason: str = ""


APPROVAL_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}, "reason": TEXT},
    "required": ["approve", "reason"],
}


class ReadSteps(NamedTuple):
    """The steps of an answer, the roles that it makes, and what was repaired in it."""

    steps: tuple[Step, ...]
    new_roles: dict[str, Role] = {}
    repaired: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepForm:
    """What a plan of this team may consist of: its roles, and whether there may be new roles and shared steps."""

    roles: Sequence[str]
    team: Roster
    declared: Collection[str] = ()
    """The roles that the team declares; others are members."""
    create_roles: bool = False
    shared: bool = False
    pool: bool = False
    """Whether a step without a role is for any member that is free."""
    taken: Collection[str] = ()
    """Names that no step may have."""

    @property
    def text(self) -> str:
        """The form, as prompts show it, without the rules of single fields."""
        return "\n".join(filter(None, (NEW_ROLES if self.create_roles else "", SHARED if self.shared else "")))

    def step_schema(self, most: int, *, reason: bool = False) -> dict[str, JsonValue]:
        """Return the JSON Schema of a step of a plan of at most so many; every text and list of it is bounded."""
        names = cast("list[JsonValue]", list(self.roles))
        role: JsonValue = {**NAMED, "examples": names} if self.create_roles else _one_of(self.roles)
        fields: dict[str, JsonValue] = {
            "id": {
                "type": "string",
                "maxLength": LONGEST_NAME,
                "description": "a short name: letters, digits, - and _",
            },
            "role": role,
            "task": _text("what to do, in full sentences"),
            "needs": {
                "type": "array",
                "items": NAMED,
                "maxItems": most,
                "description": "ids of the steps whose results it reads",
            },
        }
        if self.create_roles:
            fields["instructions"] = _text("of a new role: what it is and does")
            fields["capability"] = _text("of a new role: what its member must be able to do")
        if reason:
            fields["reason"] = _text("why it comes next; a step that was done needs a new one")
        if self.shared:
            fields |= self._shared_fields()
        return {
            "type": "object",
            "properties": fields,
            "required": ["id", "task"] if self.shared or self.pool else ["id", "role", "task"],
        }

    def _shared_fields(self) -> dict[str, JsonValue]:
        member, many = _one_of(self.team.members), 2 * len(self.team.members)
        part: JsonValue = {
            "type": "object",
            "properties": {"id": NAMED, "agent": member, "task": TEXT},
            "required": ["id", "agent", "task"],
        }
        return {
            "parallel": _one_of(("serial", "subtask_parallel", "competitive_parallel")),
            "parts": {"type": "array", "items": part, "maxItems": many},
            "agents": {"type": "array", "items": member, "maxItems": many},
            "merge": _one_of(("best", "vote", "fusion")),
            "enough": {"type": "integer", "minimum": 1},
            "milestone": {"type": "array", "items": TEXT, "maxItems": MOST_QUESTIONS},
        }

    def plan_schema(self, most: int, *, reason: bool = False) -> JsonSchema:
        """Return the JSON Schema of a plan of at most so many steps; with `reason`, of one that says why."""
        steps: JsonValue = {"type": "array", "items": self.step_schema(most), "minItems": 1, "maxItems": most}
        fields: dict[str, JsonValue] = {"reason": TEXT, "steps": steps} if reason else {"steps": steps}
        return {"type": "object", "properties": fields, "required": list[JsonValue](fields)}

    def change_schema(self, most: int) -> JsonSchema:
        """Return the JSON Schema of a change of at most so many steps of the plan."""
        put: JsonValue = {"type": "array", "items": self.step_schema(most), "maxItems": most}
        removed: JsonValue = {"type": "array", "items": NAMED, "maxItems": most}
        return {"type": "object", "properties": {"put": put, "remove": removed, "reason": TEXT}}

    def decision_schema(self, most: int, *, first: bool = False) -> JsonSchema:
        """Return the JSON Schema of a decision on at most so many next steps; the `first` one is on some."""
        steps: dict[str, JsonValue] = {"type": "array", "items": self.step_schema(most, reason=True), "maxItems": most}
        if first:
            steps["minItems"] = 1
        actions = ("work",) if first else ("work", "answer")
        fields: dict[str, JsonValue] = {"action": _one_of(actions), "steps": steps}
        return {"type": "object", "properties": fields, "required": ["action", "steps"] if first else ["action"]}

    def read_steps(
        self, planned: Sequence[PlannedStep], earlier: Sequence[Step] = (), kept: Mapping[str, Step] | None = None
    ) -> ReadSteps | ParseFailure:
        """Return these steps after earlier ones, or what is wrong with them that can't be repaired.

        `kept` are steps of the present plan, of which those with the same id keep what only people set.
        """
        repaired: list[str] = []
        made: dict[str, Role] = {}
        faults: list[str] = []
        needs = _repaired_needs(planned, {step.id for step in earlier}, repaired)
        steps: list[Step] = []
        for one in planned:
            try:
                steps.append(self._step(one, needs[one.id], (kept or {}).get(one.id), made, faults))
            except InvalidValue as error:
                faults.append(f"the step {one.id!r}: {error}")
        taken = (one.id for one in planned if one.id in self.taken)
        faults += [f"{id_!r} is the step in which the lead answers; name yours otherwise" for id_ in taken]
        faults = [*(one.text for one in plan_faults((*earlier, *steps))), *faults]
        if faults:
            more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
            return ParseFailure("; ".join(fault.rstrip(".") for fault in faults[:SHOWN_FAULTS]) + more)
        return ReadSteps(tuple(steps), made, tuple(repaired))

    def _step(
        self, one: PlannedStep, needs: tuple[str, ...], before: Step | None, made: dict[str, Role], faults: list[str]
    ) -> Step:
        """Return a step; adds the role that it makes, and what is wrong with it."""
        fields: dict[str, object] = {"id": one.id, "needs": needs}
        if one.task is not None and one.task.strip():
            fields["task"] = literal_template(one.task)
        if one.parallel != "serial" and self.shared:
            fields |= _shared(one)
        elif one.role or one.id not in self.roles:
            fields |= self._who(one, made, faults)
        kept = {} if before is None else {name: getattr(before, name) for name in before.model_fields_set & KEPT}
        step = Step.model_validate(fields | kept)
        questions = [text for text in one.milestone if text.strip()] if self.shared else []
        if not questions or "evaluate" in kept:
            return step
        asked = [Criterion(id=f"q{number}", judge=text) for number, text in enumerate(questions, start=1)]
        milestone = Evaluate(judge=_judge_of(step, self.team), criteria=tuple(asked))
        return step.model_copy(update={"evaluate": milestone})

    def _who(self, one: PlannedStep, made: dict[str, Role], faults: list[str]) -> dict[str, object]:
        """Return the role of a step, or the member that it names."""
        if self.pool and not one.role.strip():
            return {}
        name = _exact(one.role, (*self.roles, *made)) or one.id
        if name in self.roles or name in made:
            return {"role": name} if name in self.declared or name in made else {"agent": name}
        if name in self.team.members and not self.declared:
            return {"agent": name}
        if not self.create_roles:
            faults.append(
                f"the step {one.id!r} has the role {name!r}, which does not exist; {nearest(name, self.roles)}"
            )
        elif not NAME.fullmatch(name):
            faults.append(f"the step {one.id!r}: {InvalidName('role', name, suggest_name(name))}")
        elif not one.instructions.strip():
            faults.append(f"the step {one.id!r} has the new role {name!r}, which needs instructions")
        else:
            made[name] = CreatedRole(instructions=one.instructions, capabilities=one.capability or ())
        return {"role": name} if NAME.fullmatch(name) else {}


SET_BY_MODELS = {"id", "task", "needs", "role", "agent", "agents", "parallel", "parts", "merge", "enough", "status"}
KEPT = frozenset(Step.model_fields) - SET_BY_MODELS
"""Fields of a step that only people set."""


def _shared(one: PlannedStep) -> dict[str, object]:
    fields: dict[str, object] = {"parallel": one.parallel}
    if one.agents:
        fields["agents"] = one.agents
    if one.parts:
        parts = [(part, None if part.task is None else literal_template(part.task)) for part in one.parts]
        fields["parts"] = tuple(Part(id=part.id, agent=part.agent, task=task) for part, task in parts)
    if one.parallel == "competitive_parallel":
        fields["merge"] = one.merge
        if one.enough is not None:
            fields["enough"] = one.enough
    return fields


def _judge_of(step: Step, team: Roster) -> str:
    """Return the lead; where the lead is an author of the step, the first member who is not."""
    authors = step.authors(team)
    return next((name for name in (team.lead, *team.workers) if name not in authors), team.lead)


def _text(description: str) -> JsonValue:
    return {"type": "string", "maxLength": LONGEST_TASK, "description": description}


def _one_of(names: Sequence[str]) -> JsonValue:
    return {"type": "string", "enum": list[JsonValue](dict.fromkeys(names))}


def _exact(role: str, roles: Sequence[str]) -> str:
    """Return the role as it is declared, if it differs only in case or blanks."""
    like = [one for one in roles if one.casefold() == role.strip().casefold()]
    return like[0] if len(like) == 1 else role


def _repaired_needs(
    planned: Sequence[PlannedStep], earlier: Collection[str], repaired: list[str]
) -> dict[str, tuple[str, ...]]:
    """Return the needs of each step without those that mean nothing: blank, unknown, its own, and of later steps.

    A later step is one that needs this one, directly or not: without that, there is no cycle.
    """
    ids, found, seen = {one.id for one in planned}, dict[str, tuple[str, ...]](), set(earlier)
    for one in planned:
        kept: list[str] = []
        for need in dict.fromkeys(text.strip() for text in one.needs):
            if not need:
                repaired.append(f"a blank need of {one.id!r} was dropped")
            elif need == one.id:
                repaired.append(f"{one.id!r} can't need itself")
            elif need not in ids and need not in earlier:
                repaired.append(f"{one.id!r} needs {need!r}, which is no step, so the need was dropped")
            elif need not in seen and _reaches(one.id, need, planned):
                repaired.append(f"{one.id!r} needs {need!r}, which needs it, so the need was dropped")
            else:
                kept.append(need)
        found[one.id] = tuple(kept)
        seen.add(one.id)
    return found


def _reaches(target: str, start: str, planned: Sequence[PlannedStep]) -> bool:
    """Return whether a step depends on another one."""
    needs = {one.id: one.needs for one in planned}
    seen, waiting = set[str](), [start]
    while waiting:
        id_ = waiting.pop()
        if id_ == target:
            return True
        if id_ not in seen:
            seen.add(id_)
            waiting.extend(text.strip() for text in needs.get(id_, ()))
    return False


def distinct_steps(planned: Sequence[PlannedStep], repaired: list[str]) -> tuple[PlannedStep, ...]:
    """Return steps with valid ids of their own: one that is repeated is left out, and others are renamed."""
    names = {one.id: _valid_id(one.id, place) for place, one in enumerate(planned, start=1)}
    repaired += (f"{before!r} can't name a step, so it is {name!r}" for before, name in names.items() if name != before)
    found: dict[str, PlannedStep] = {}
    numbers: Counter[str] = Counter()
    for one in planned:
        wanted = name = names[one.id]
        same = found.get(wanted)
        if same is not None and (same.role, same.task) == (one.role, one.task):
            repaired.append(f"{wanted!r} was planned twice, and is done once")
            continue
        while name in found:
            numbers[wanted] += 1
            name = f"{wanted}-{numbers[wanted] + 1}"
        if name != wanted:
            repaired.append(f"another step is called {wanted!r}, so one is {name!r}")
        needs = tuple(names.get(need, need) for need in one.needs)
        found[name] = one.model_copy(update={"id": name, "needs": needs})
    return tuple(found.values())


def _valid_id(id_: str, place: int) -> str:
    """Return an id as it can name a step: letters and digits of other scripts can't."""
    if NAME.fullmatch(id_):
        return id_
    cleaned = suggest_name(id_)
    return cleaned if any(character in cleaned for character in id_) else f"step-{place}"


def within(planned: Sequence[PlannedStep], most: int, repaired: list[str]) -> tuple[PlannedStep, ...]:
    """Return steps with ids of their own, at most so many: what is beyond is part of the last one."""
    planned = distinct_steps(planned, repaired)
    if len(planned) <= most:
        return tuple(planned)
    kept, beyond = list(planned[:most]), planned[most:]
    last, merged = kept[-1], {one.id for one in beyond}
    task = "\n".join(filter(None, (last.task or "", *(one.task or "" for one in beyond))))
    needs = tuple(dict.fromkeys((*last.needs, *(need for one in beyond for need in one.needs))))
    ids = {one.id for one in kept[:-1]}
    kept[-1] = last.model_copy(update={"task": task, "needs": tuple(need for need in needs if need in ids)})
    repaired.append(
        f"{len(planned)} steps were planned, and at most {most} are allowed, so {last.id!r} does also the work of"
        f" {', '.join(sorted(merged))}"
    )
    return tuple(kept)


def read_form(reply: Reply, form: type[T]) -> T | ParseFailure:
    """Return the one value of a form in a reply; of one that was cut at its output cap, what is complete."""
    adapter = cast("TypeAdapter[T]", _adapter(form))
    found = read_answer(reply, adapter)
    if not isinstance(found, ParseFailure) or not reply.truncated:
        return found
    complete = read_answer(Reply(data=_complete_steps(reply.text)), adapter)
    if isinstance(complete, ParseFailure):
        return ParseFailure(f"it was cut at its end; {found.problem}")
    return complete


def cut_notes(reply: Reply, steps: Sequence[PlannedStep]) -> list[str]:
    """Return what is to be said of a plan that was cut; nothing if it was complete all the same."""
    if not reply.truncated or not isinstance(read_answer(reply, _adapter(PlannedSteps)), ParseFailure):
        return []
    return [f"the answer was cut at its output cap, so its {len(steps)} complete steps are the plan"]


def _complete_steps(text: str) -> JsonValue:
    """Return an answer that was cut without its last step, which may not be complete; None if there is no other."""
    data = parse_partial(text[:MOST_CHARACTERS])
    if isinstance(data, list):
        data = {"steps": data}
    steps = data.get("steps") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(steps, list):
        return None
    return {**data, "steps": steps[:-1]} if len(steps) > 1 else None


@cache
def _adapter(form: type[Lenient]) -> TypeAdapter[Lenient]:
    return TypeAdapter(form)


def read_plan(reply: Reply, form: StepForm, most: int) -> ReadSteps | ParseFailure:
    """Return the plan in a reply, or every mistake in it that can't be repaired, worded for the planner."""
    plan = read_form(reply, PlannedSteps)
    if isinstance(plan, ParseFailure):
        return plan
    repaired = cut_notes(reply, plan.steps)
    found = form.read_steps(within(plan.steps, most, repaired))
    return found if isinstance(found, ParseFailure) else found._replace(repaired=(*repaired, *found.repaired))


def read_change(reply: Reply, form: StepForm, plan: Plan) -> PlanChange | ParseFailure:
    """Return the change in a reply, or what is wrong with it."""
    draft = read_form(reply, PlannedChange)
    return draft if isinstance(draft, ParseFailure) else change_of(draft, form, plan)


def change_of(draft: PlannedChange, form: StepForm, plan: Plan) -> PlanChange | ParseFailure:
    """Return a change of this plan that a model wrote."""
    put = {one.id for one in draft.put}
    others = [step for step in plan.steps if step.id not in put]
    read = form.read_steps(draft.put, others, plan.by_id)
    if isinstance(read, ParseFailure):
        return read
    return PlanChange(put=read.steps, remove=draft.remove, reason=draft.reason)


def proposal_in(reply: Reply) -> PlannedChange | ParseFailure | None:
    """Return the change that a reply proposes; None if it proposes none."""
    full = reply.full
    if CHANGE not in full.text and not (isinstance(full.data, dict) and CHANGE in full.data):
        return None
    if not any(isinstance(one, dict) and CHANGE in one for found in candidate_values(full) for one in found):
        return None
    found = read_form(full, ReplyWithChange)
    return found if isinstance(found, ParseFailure) else found.plan_change


def plain_reason(text: str) -> str:
    """Return a text without what makes no other reason of it: case and blanks."""
    return " ".join(text.casefold().split())


def example_answer(schema: Mapping[str, JsonValue], number: int) -> JsonValue:
    """Return an answer that fits one of these schemas: a step for each role, no change, an approval; else None."""
    fields = cast("dict[str, dict[str, JsonValue]]", schema.get("properties") or {})
    if "chosen" in fields:
        return {"options": ["this way", "another way"], "chosen": "this way", "reasons": ["It helps."], "dissent": []}
    if "approve" in fields:
        return {"approve": True, "reason": "It helps."}
    if "put" in fields and "remove" in fields:
        return {}
    roles = _roles_in(fields.get("steps"))
    if not roles:
        return None
    if "action" in fields and number > 1:
        return {"action": "answer"}
    if "reason" in fields:
        step: JsonValue = {"id": f"replan-{number}", "role": roles[0], "task": "The rest."}
        return {"reason": f"Another way, the {number}th.", "steps": [step]}
    limit = fields["steps"].get("maxItems")
    ids = [f"step-{place}" for place, _ in enumerate(roles[: limit if isinstance(limit, int) else None], start=1)]
    in_turn = "action" not in fields
    steps: list[JsonValue] = [
        {"id": id_, "role": role, "task": "Your part.", "needs": cast("JsonValue", ids[:place][-1:] if in_turn else [])}
        for place, (id_, role) in enumerate(zip(ids, roles, strict=False))
    ]
    return {"steps": steps} if in_turn else {"action": "work", "steps": steps}


def _roles_in(steps: JsonValue) -> list[str]:
    found: JsonValue = steps
    for name in ("items", "properties", "role"):
        found = found.get(name) if isinstance(found, dict) else None
    names = (found.get("enum") or found.get("examples")) if isinstance(found, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
