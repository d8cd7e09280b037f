"""A plan: steps with their needs, owned keys and limits. It does not say how a team executes them."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from teamwright.values.limits.limits import Limits
from teamwright.values.models import Value
from teamwright.values.specs.manifest import MemberName


class Step(Value):
    """One step: its agent, task, needs, owned keys, condition and limits.

    Names, needs and cycles are checked where all steps of a plan are known.
    """

    id: str = Field(description="its name, under which its output reaches the steps that need it")
    agent: MemberName | None = Field(default=None, description="who works on it; else the member named like the step")
    needs: tuple[str, ...] = Field(default=(), description="ids of the steps whose output it works on")
    owns: tuple[str, ...] = Field(
        default=(), description="keys, such as paths, that no other step may own at the same time; wildcards allowed"
    )
    execution_tokens: int = Field(default=0, ge=0, description="what the work is expected to take")
    coordination_tokens: int = Field(default=0, ge=0, description="what talk about it is expected to take")
    task: str | None = Field(default=None, description="what to do, as a template; else the task of the team")
    when: str | None = Field(default=None, description="a condition; where it does not hold, the step is skipped")
    limits: Limits | None = Field(default=None, description="what it may spend at most")
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="of steps that could begin, the highest goes first; else the longest way",
    )


class Plan(Value):
    """Steps in any order; their needs define the order of execution. A task file spells the field `tasks`."""

    steps: tuple[Step, ...] = Field(
        min_length=1, validation_alias=AliasChoices("steps", "tasks"), description="the steps"
    )
