"""A plan: steps with who works on them, what they need and how they are reviewed; not how a team executes it.

One vocabulary for every team that works through a plan. Names, needs and cycles are checked where all steps are known.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, cast

from pydantic import AliasChoices, ConfigDict, Field, JsonValue, StringConstraints

from teamwright.values.limits import Limits
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.tools import MemberName
from teamwright.values.value import Value

Parallel = Literal["serial", "subtask_parallel", "competitive_parallel"]
Merge = Literal["best", "vote", "fusion"]
StepStatus = Literal["pending", "in_progress", "completed", "skipped", "failed"]
PlanStatus = Literal["draft", "confirmed", "executing", "completed", "failed", "fallback"]
RoleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

SETTLED: frozenset[StepStatus] = frozenset(("completed", "skipped"))
"""Steps that are over: their dependents may start."""
BOOKKEEPING = frozenset(("status", "version", "pins"))
"""Fields of steps and plans that a run keeps, which are no part of what people and planners write."""


INSTEAD = {
    "after": "write  needs",
    "depends_on": "write  needs",
    "member": "write  agent",
    "members": "write  agents",
    "assignee": "write  agent",
    "expert": "write  agent",
    "prompt": "write  task",
    "description": "write  task",
    "condition": "write  when",
    "if": "write  when",
    "title": "write  name",
    "milestone": "write  evaluate",
    "judge": "write  evaluate: {judge: …}",
    "timeout": "write  limits: {seconds: …}",
}
"""What to write for words of a step that users may expect."""


class Roster(NamedTuple):
    """The names in a team: its members in order, its lead, and other agents that may judge."""

    members: tuple[str, ...]
    lead: str
    helpers: tuple[str, ...] = ()

    @property
    def workers(self) -> tuple[str, ...]:
        """The members besides the lead, each once."""
        return tuple(name for name in dict.fromkeys(self.members) if name != self.lead)


Capability = Annotated[str, Field(min_length=1)]
"""What a member declares that it can do."""


class Role(Value):
    """What a step needs from the member that works on it. One with the required capabilities is bound to it."""

    description: str = Field(default="", description="what the role is for; a planner reads it")
    instructions: str = Field(default="", description="stand before the task of each of its steps")
    capabilities: Capability | tuple[Capability, ...] = Field(
        default=(), description="a capability, or several, that the member must declare"
    )
    agent: MemberName | None = Field(default=None, description="the member; by default one that fits")
    tools: tuple[str, ...] | None = Field(
        default=None, description="the only tools that its member may use in this role, by tool or by source"
    )
    limits: Limits | None = Field(default=None, description="limits of each of its steps")

    @property
    def wanted(self) -> tuple[str, ...]:
        """The capabilities that its member must declare."""
        return (self.capabilities,) if isinstance(self.capabilities, str) else self.capabilities


class CreatedRole(Role):
    """A role that a planner made. Its member has no tools in it that a declared role forbids this member."""


class Part(Value):
    """A part of a step, which one member works on beside those of the other parts."""

    id: str = Field(description="the name of the part, unique within its step")
    agent: MemberName = Field(description="the member that works on it")
    task: str | None = Field(default=None, description="its task as a template; the task of the step by default")


class Step(Value):
    """One step: who works on it, its task, needs, owned keys, condition, limits and review.

    One member works on it, or several: in parts, or all on the same task in competition.
    """

    model_config = ConfigDict(json_schema_extra={"instead": cast("JsonValue", INSTEAD)})

    id: str = Field(description="the name of the step, under which other steps get its output")
    name: str = Field(default="", description="a title for people")
    agent: MemberName | None = Field(
        default=None, description="the member that executes it; by default the member with the step's name"
    )
    role: RoleName | None = Field(default=None, description="the role; by default the role of the step's name")
    agents: tuple[MemberName, ...] = Field(
        default=(),
        description="the members that work on it side by side; one that is listed twice competes with itself",
    )
    parallel: Parallel = Field(
        default="serial",
        description="`serial`: one member; `subtask_parallel`: parts side by side, which the lead puts together;"
        " `competitive_parallel`: several members on the same task",
    )
    parts: tuple[Part, ...] = Field(
        default=(), description="the parts of a step with `subtask_parallel`; without them, the lead splits the task"
    )
    merge: Merge = Field(
        default="best",
        description="how a competition ends: the lead picks the `best`, all members `vote`, or the lead merges"
        " all answers (`fusion`)",
    )
    enough: int | None = Field(
        default=None, ge=1, description="how many answers end a competition early; the other competitors are cancelled"
    )
    needs: tuple[str, ...] = Field(default=(), description="ids of the steps whose output it uses")
    owns: tuple[str, ...] = Field(
        default=(), description="keys, such as paths, that no other step may own at the same time; with wildcards"
    )
    execution_tokens: int = Field(default=0, ge=0, description="expected tokens of the work")
    coordination_tokens: int = Field(default=0, ge=0, description="expected tokens of coordination")
    task: str | None = Field(default=None, description="the task as a template; the task of the team by default")
    when: str | None = Field(default=None, description="a condition; the step is skipped where it is false")
    limits: Limits | None = Field(default=None, description="limits of the step")
    evaluate: Evaluate | None = Field(
        default=None, description="how its result is evaluated before steps that need it start"
    )
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="of steps that are ready, the highest starts first; among equals, the longest critical path",
    )
    required: bool = Field(default=False, description="whether it can't be skipped: the team fails without it")
    nothing_found: bool = Field(
        default=False, description="whether NOTHING FOUND is an answer, which is not evaluated further"
    )
    status: StepStatus = Field(default="pending", description="how far the step is; a run keeps it")

    @property
    def title(self) -> str:
        return self.name or self.id

    @property
    def experts(self) -> tuple[str, ...]:
        """The members that the step names, each once; empty if the lead chooses them."""
        named = (part.agent for part in self.parts) if self.parts else self.agents
        if found := tuple(dict.fromkeys(named)):
            return found
        return (self.agent or self.id,) if self.parallel == "serial" and (self.agent or not self.role) else ()

    @property
    def is_shared(self) -> bool:
        """Whether several members work on it, in parts or in competition."""
        return self.parallel != "serial"

    @property
    def is_competition(self) -> bool:
        """Whether several members do all of it, and one result counts."""
        return self.parallel == "competitive_parallel"

    @property
    def assignee(self) -> str:
        """Who works on it, as the plan says; empty where that is decided later."""
        return self.agent or self.role or ", ".join(self.experts if self.agents or self.parts else ())

    def workers(self, team: Roster) -> tuple[str, ...]:
        """Return who works on it side by side: those that it names, or else all members but the lead."""
        return self.agents or team.workers

    def authors(self, team: Roster) -> tuple[str, ...]:
        """Return who may be the author of its result: those that work on it, or the lead where it makes one of many."""
        if self.parallel == "serial":
            return self.experts
        if self.parallel == "competitive_parallel":
            return (team.lead,) if self.merge == "fusion" else self.workers(team)
        return (self.parts[0].agent,) if len(self.parts) == 1 else (team.lead,)

    @property
    def is_settled(self) -> bool:
        """Whether its dependents may start."""
        return self.status in SETTLED

    @property
    def is_open(self) -> bool:
        """Whether it has not started, so that it can still be changed."""
        return self.status == "pending"


class Pins(Value):
    """What a person edited: a planner may propose to change it, and never overwrites it.

    A step is pinned field by field. A step that a person removed stays pinned under its id, without fields.
    """

    steps: dict[str, tuple[str, ...]] = Field(default={}, description="the fields that a person set, by step")
    variables: tuple[str, ...] = Field(default=(), description="the variables that a person set")


class Plan(Value):
    """Steps in any order; their needs define the order of execution. A task file spells the field `tasks`.

    In a run it has a status and a version: each change makes a new one.
    """

    steps: tuple[Step, ...] = Field(
        min_length=1, validation_alias=AliasChoices("steps", "tasks"), description="the steps"
    )
    variables: dict[str, JsonValue] = Field(default={}, description="values that tasks use, as `variables.NAME`")
    status: PlanStatus = Field(default="draft", description="how far the plan is; a run keeps it")
    version: int = Field(default=1, ge=1, description="its number; a run keeps it")
    pins: Pins = Field(default=Pins.model_construct(), description="what a person edited; a run keeps it")

    @property
    def by_id(self) -> dict[str, Step]:
        return {step.id: step for step in self.steps}

    def to_json(self) -> dict[str, JsonValue]:
        """The plan as JSON data without defaults; `Plan.model_validate` reads it again."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def with_status(self, step: str, status: StepStatus) -> Plan:
        """Return the plan with another status of one step; its version stays."""
        changed = [one.model_copy(update={"status": status}) if one.id == step else one for one in self.steps]
        return self.model_copy(update={"steps": tuple(changed)})
