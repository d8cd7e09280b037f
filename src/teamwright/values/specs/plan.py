"""A plan: steps with their needs, owned keys and limits. It does not say how a team executes them."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from teamwright.values.limits import Limits
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.tools import MemberName
from teamwright.values.value import Value


class Step(Value):
    """One step: its agent, task, needs, owned keys, condition and limits.

    Names, needs and cycles are checked where all steps of a plan are known.
    """

    id: str = Field(description="the name of the step, under which other steps get its output")
    agent: MemberName | None = Field(
        default=None, description="the member that executes it; by default the member with the step's name"
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

    @property
    def assignee(self) -> str:
        """Who works on it, as the plan says; empty where that is decided later."""
        return self.agent or ""


class Plan(Value):
    """Steps in any order; their needs define the order of execution. A task file spells the field `tasks`."""

    steps: tuple[Step, ...] = Field(
        min_length=1, validation_alias=AliasChoices("steps", "tasks"), description="the steps"
    )
