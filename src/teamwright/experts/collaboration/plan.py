"""A collaboration plan: a `Plan` whose steps are phases. Pure values: they do not know how a phase runs.

Phases have the fields of all steps: the expert of a phase is its `agent`, what it depends on are its `needs`, and its
milestone is what `evaluate` says.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field, JsonValue

from teamwright.values.specs.plan import Plan, Step
from teamwright.values.specs.tools import MemberName
from teamwright.values.value import Value

Parallel = Literal["serial", "subtask_parallel", "competitive_parallel"]
Merge = Literal["best", "vote", "fusion"]
PhaseStatus = Literal["pending", "in_progress", "completed", "skipped", "failed"]
PlanStatus = Literal["draft", "confirmed", "executing", "completed", "failed", "fallback"]

SETTLED: frozenset[PhaseStatus] = frozenset(("completed", "skipped"))
"""Phases that are over: their dependents may start."""
BOOKKEEPING = frozenset(("status", "version", "pins"))
"""Fields of phases and plans that a run keeps, which are no part of what people and planners write."""


class Roster(NamedTuple):
    """The names in a team: its members in order, its lead, and other agents that may judge."""

    members: tuple[str, ...]
    lead: str
    helpers: tuple[str, ...] = ()

    @property
    def workers(self) -> tuple[str, ...]:
        """The members besides the lead, each once."""
        return tuple(name for name in dict.fromkeys(self.members) if name != self.lead)


class Part(Value):
    """A part of a phase, which one expert works on beside those of the other parts."""

    id: str = Field(description="the name of the part, unique within its phase")
    agent: MemberName = Field(description="the member that works on it")
    task: str | None = Field(default=None, description="its task as a template; the task of the phase by default")


class Phase(Step):
    """A step that one expert works on, or several: in parts, or all on the same task in competition."""

    name: str = Field(default="", description="a title for people")
    agents: tuple[MemberName, ...] = Field(
        default=(),
        description="the members that work on it side by side; one that is listed twice competes with itself",
    )
    parallel: Parallel = Field(
        default="serial",
        description="`serial`: one expert; `subtask_parallel`: parts side by side, which the lead puts together;"
        " `competitive_parallel`: several experts on the same task",
    )
    merge: Merge = Field(
        default="best",
        description="how a competition ends: the lead picks the `best`, all members `vote`, or the lead merges"
        " all answers (`fusion`)",
    )
    parts: tuple[Part, ...] = Field(
        default=(), description="the parts of a phase with `subtask_parallel`; without them, the lead splits the task"
    )
    enough: int | None = Field(
        default=None, ge=1, description="how many answers end a competition early; the other competitors are cancelled"
    )
    status: PhaseStatus = Field(default="pending", description="how far the phase is; a run keeps it")

    @property
    def title(self) -> str:
        """The name for people."""
        return self.name or self.id

    @property
    def experts(self) -> tuple[str, ...]:
        """The members that the phase names, each once; empty if the lead chooses them."""
        named = (part.agent for part in self.parts) if self.parts else self.agents
        return tuple(dict.fromkeys(named)) or ((self.agent or self.id,) if self.parallel == "serial" else ())

    @property
    def assignee(self) -> str:
        """The members that it names."""
        return ", ".join(self.experts)

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

    A phase is pinned field by field. A phase that a person removed stays pinned under its id, without fields.
    """

    phases: dict[str, tuple[str, ...]] = Field(default={}, description="the fields that a person set, by phase")
    variables: tuple[str, ...] = Field(default=(), description="the variables that a person set")


class CollaborationPlan(Plan):
    """The phases of a collaboration, its variables, and how far it is. Each change makes a new version."""

    steps: tuple[Phase, ...] = Field(min_length=1, description="the phases, in any order")  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    variables: dict[str, JsonValue] = Field(default={}, description="values that tasks use, as `variables.NAME`")
    status: PlanStatus = Field(default="draft", description="how far the plan is; a run keeps it")
    version: int = Field(default=1, ge=1, description="its number; a run keeps it")
    pins: Pins = Field(default=Pins.model_construct(), description="what a person edited; a run keeps it")

    @property
    def phases(self) -> dict[str, Phase]:
        """The phases by id, in the order of the plan."""
        return {phase.id: phase for phase in self.steps}

    def to_json(self) -> dict[str, JsonValue]:
        """The plan as JSON data without defaults; `CollaborationPlan.model_validate` reads it again."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def with_status(self, phase: str, status: PhaseStatus) -> CollaborationPlan:
        """Return the plan with another status of one phase; its version stays."""
        changed = [one.model_copy(update={"status": status}) if one.id == phase else one for one in self.steps]
        return self.model_copy(update={"steps": tuple(changed)})


def phase_text(phase: Phase, task: str | None) -> str:
    """Return a phase as the lead reads it; `task` is its task, rendered."""
    return f"The phase: {phase.title}" + (f"\nIts task: {task}" if task else "")
