"""The options of teams that collaborate: the phases of the plan, who leads it, and who finishes if it fails."""

from __future__ import annotations

from pydantic import Field, JsonValue

from teamwright.agents.contract.agent import Agent
from teamwright.experts.collaboration.plan import CollaborationPlan, Phase, Roster
from teamwright.experts.expert_agent import default_lead
from teamwright.strategies.protocol import Members
from teamwright.values.models import Value
from teamwright.values.specs.manifest import AgentName


class CollaborateOptions(Value):
    """The plan of a collaboration, or none if the lead writes it, and how it runs."""

    steps: tuple[Phase, ...] = Field(default=(), description="the phases, in any order; without them, the lead plans")
    variables: dict[str, JsonValue] = Field(default={}, description="values that tasks use, as `variables.NAME`")
    lead: AgentName | None = Field(
        default=None,
        description="who leads: a member, or another agent or team; by default the one with `is_lead`, else the first",
    )
    fallback: AgentName | None = Field(
        default=None, description="who finishes the task alone where the plan fails; by default the lead"
    )
    max_parallel: int = Field(default=10, ge=1, description="how many phases run at once, and how many of their parts")
    confirm: bool = Field(
        default=False, description="whether a person approves the plan before it runs, and later each difference"
    )
    max_phases: int = Field(
        default=20,
        ge=1,
        le=200,
        description="how many phases a plan may have that models write or change, and how many may work on one of them",
    )
    proposals: int = Field(default=3, ge=0, description="how many changes of the plan experts may propose; 0 is none")

    @property
    def plan(self) -> CollaborationPlan | None:
        """The plan, if it is declared."""
        return CollaborationPlan(steps=self.steps, variables=self.variables) if self.steps else None

    def lead_of(self, members: Members) -> Agent:
        """Return the agent that leads: the one that is declared, else the expert that is a lead, else the first."""
        return default_lead(members) if self.lead is None else members.named(self.lead)

    def finisher_of(self, members: Members) -> Agent:
        """Return the agent that finishes the task where the plan fails."""
        return self.lead_of(members) if self.fallback is None else members.named(self.fallback)

    def roster(self, members: Members) -> Roster:
        """Return the names of the team."""
        names = tuple(member.name for member in members)
        helpers = tuple(name for name in members.names if name not in names)
        return Roster(names, self.lead_of(members).name, helpers)
