"""The options of coordinators: roles, steps, risk, evaluation, limits, and what happens after a failure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from teamwright.values.specs.evaluation import Evaluate, Risk
from teamwright.values.specs.manifest import AgentName
from teamwright.values.specs.plan import Role, RoleName, Step
from teamwright.values.value import Value


class FailureLadder(Value):
    """What happens, rung by rung, when a member fails; what no rung settles fails the team."""

    retry: int = Field(default=1, ge=0, le=20, description="how often a step is tried again")
    downgrade_model: bool = Field(
        default=True, description="then once with the member's `economy` model, if it has one"
    )
    skip_step: bool = Field(default=True, description="then the team continues without the step, with a warning")


class CoordinationOptions(Value):
    """What all coordinators have in common: the risk that decides about evaluation, and the limits of a team."""

    risk: Risk = Field(
        default="medium",
        description="what bad work would cost: work that did not pass fails the team, with `low` it counts with a"
        " warning; with `high`, checks alone decide",
    )
    evaluate: Evaluate | None = Field(
        default=None, description="how steps are evaluated that don't say it themselves; by default they are not blank"
    )
    max_feedback_rounds: int = Field(
        default=3, ge=1, le=20, description="how often a member is asked for a step, the first time included"
    )
    max_parallel: int = Field(default=10, ge=1, description="how many steps run at once")
    timeout: float = Field(
        default=600.0,
        gt=0,
        allow_inf_nan=False,
        description="seconds of work, without waits for people and providers; then the team ends with what it has",
    )

    @property
    def time_note(self) -> str:
        """How long the team works at most, as a reader of the plan learns it before the start."""
        return f"at most {self.timeout:g} s of work"

    def out_of_time(self, when: str) -> str:
        """Why a team ended without more time, and which setting gives it more."""
        setting = (
            "raise  timeout  under its strategy; --max-seconds  raises that of a run's own team, not of teams within it"
        )
        return f"the team used up its {self.timeout:g} seconds of work{when}; {setting}"


class PlanOptions(CoordinationOptions):
    """What coordinators with a plan have in common."""

    answer: str | None = Field(
        default=None, description="the step that gives the team's answer; by default the last one"
    )


class ExpertOptions(PlanOptions):
    """The roles and the plan of an expert team: fixed `steps`, a `planner`, or else one step for each role."""

    roles: dict[RoleName, Role] = Field(default={}, description="the roles; by default each member is one")
    steps: tuple[Step, ...] = Field(default=(), description="the steps of a fixed plan, in any order")
    planner: AgentName | None = Field(default=None, description="the agent that makes the plan")
    max_steps: int = Field(default=20, ge=1, le=200, description="how many steps a planner may plan")
    create_roles: bool = Field(default=False, description="whether a planner may make roles that are not declared")
    max_replans: int = Field(
        default=0,
        ge=0,
        le=20,
        description="how often the planner plans again after a step has failed, before it is skipped or fails the team",
    )
    on_planner_failure: Literal["fail_fast", "single_step_fallback"] = Field(
        default="fail_fast",
        description="when there is no usable plan: the team fails, or the task is one step, with a warning",
    )
    confirm: bool = Field(
        default=False, description="whether a person approves, edits or rejects the plan before work starts"
    )
    on_failure: FailureLadder = Field(default=FailureLadder.model_construct(), description="the failure ladder")


class ReactOptions(CoordinationOptions):
    """Who decides on each step, and within which bounds. The lead also gives the answer, as the last step."""

    lead: AgentName = Field(description="the agent that decides on the next steps and gives the answer")
    roles: dict[RoleName, Role] = Field(default={}, description="the roles; by default each other member is one")
    create_roles: bool = Field(default=False, description="whether the lead may make roles that are not declared")
    max_steps: int = Field(default=10, ge=1, le=200, description="how many steps there may be before the answer")
    on_failure: FailureLadder = Field(default=FailureLadder.model_construct(), description="the failure ladder")


class DispatchOptions(PlanOptions):
    """The steps that a pool of members works on."""

    steps: tuple[Step, ...] = Field(min_length=1, description="the steps, in any order")
    retry: int = Field(
        default=1, ge=0, le=20, description="how often a failed step is tried again before it is skipped"
    )
