"""The settings of teams that work through a plan. Each answers one question, and any goes with any other.

A preset changes defaults and nothing else: what a team can do does not depend on the name of its strategy.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from teamwright.agents.contract.agent import Agent
from teamwright.strategies.parts import FailurePolicy, PlacedParts
from teamwright.strategies.plan.planner import PlannerSettings, make_schedule
from teamwright.strategies.plan.schedule import Schedule
from teamwright.strategies.protocol import Members
from teamwright.values.specs.manifest import AgentName
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.specs.tools import MemberName

Talk = Literal["none", "lead", "all"]
Handout = Literal["none", "step", "batch"]
Sight = Literal["needs", "all"]


class PlanOptions(FailurePolicy, PlacedParts):
    """The steps of a plan, who works on them, what they see of each other, and who answers."""

    LED: ClassVar[bool] = False
    """Whether the first member leads where none is named."""

    steps: tuple[Step, ...] = Field(min_length=1, description="the steps, in any order")
    lead: AgentName | None = Field(
        default=None, description="who leads: a member, or another agent or team; by default the first member"
    )
    pool: bool | tuple[MemberName, ...] = Field(
        default=False,
        description="whether steps that name no agent go to the least busy member besides the lead, or to these",
    )
    max_parallel: int | None = Field(
        default=10, ge=1, description="how many steps run at once; null for as many as there are workers"
    )
    answer: str | None = Field(
        default=None, description="the step that gives the team's answer; by default the lead, or else the last step"
    )
    sees: Sight = Field(
        default="needs",
        description="what a step gets besides its task: the results that it `needs`, or the conversation so far, `all`"
        " of it, one step at a time",
    )
    talk: Talk = Field(
        default="none",
        description="with whom members talk besides: `none`, the `lead`, which also settles conflicts, or `all`",
    )
    rounds_of_talk: int = Field(
        default=1, ge=0, description="how often each may speak before the lead decides, or the work goes on; 0 is never"
    )
    handout: Handout = Field(
        default="none",
        description="what the lead hands out before work starts: nothing, each `step`, or the steps of a `batch`",
    )
    run_budget: int | None = Field(
        default=None, ge=0, description="tokens that the envelopes of batches allot in total"
    )
    coordination_floor: int = Field(
        default=8, ge=0, description="of these, the tokens for the coordination of each step"
    )
    reason: str = Field(default="", description="why this topology was chosen, for the record")

    @property
    def is_led(self) -> bool:
        """Whether someone leads."""
        return self.LED or self.lead is not None

    @property
    def has_one_worker(self) -> bool:
        """Whether one member works on all steps, whichever agents they name."""
        return self.sees == "all" or self.handout == "step"

    def lead_of(self, members: Members) -> Agent:
        """Return the agent that leads."""
        return members[0] if self.lead is None else members.named(self.lead)

    def workers_of(self, members: Members) -> list[Agent]:
        """Return who works on steps that name no agent."""
        lead = self.lead_of(members).name if self.is_led else None
        found = [member for member in members if member.name != lead]
        if isinstance(self.pool, tuple):
            found = [members.named(name) for name in self.pool]
        return found[:1] if self.has_one_worker else found

    def width_for(self, members: Members) -> int:
        """Return how many steps run at once."""
        return self.max_parallel or max(1, len(self.workers_of(members)))

    def schedule_for(self, members: Members) -> Schedule:
        """Return the schedule of the steps for these members."""
        settings = PlannerSettings(
            max_parallel=self.width_for(members),
            run_budget=self.run_budget,
            coordination_floor=self.coordination_floor,
        )
        return make_schedule(Plan(steps=self.steps), settings)
