"""`teamwright run --auto`: chooses a topology for a team's plan, and prints which one and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from teamwright.cli.terminal.output import say

if TYPE_CHECKING:
    from teamwright.lab.calibration.calibrate import Calibration
    from teamwright.lab.topology.model import EvaluationSettings
    from teamwright.lab.topology.profiles import Topology
    from teamwright.values.limits.limits import Limits
    from teamwright.values.specs.manifest import Source, TeamSpec
    from teamwright.values.specs.plan import Plan
    from teamwright.values.turns.envelope import BudgetLevel

Auto = Annotated[
    bool, typer.Option("--auto", help="Choose a topology for the team's plan: single, lead, star or mesh.")
]
TopologyName = Annotated[
    str | None,
    typer.Option("--topology", metavar="NAME", help="Like --auto, with this topology: single, lead, star, mesh."),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="NAME",
        help="The tenant's budget that the run draws on; with --auto, the budget level: low, medium or high.",
    ),
]


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """The user's options for the choice of a topology."""

    topology: Topology | None = None
    budget: BudgetLevel | None = None
    profile: str | None = None


def topology_request(
    topology: str | None, budget: str | None, profile: str | None, *, auto: bool
) -> TopologyRequest | None:
    """The options for the choice of a topology, or None if the team runs as declared."""
    from teamwright.errors import UsageError
    from teamwright.lab.topology.profiles import topology_named
    from teamwright.values.turns.envelope import BudgetLevel

    if not auto and topology is None:
        if budget in get_args(BudgetLevel):
            raise UsageError("--budget sets the budget level for which --auto chooses a topology; add --auto.")
        if profile is not None:
            raise UsageError("--profile sets the figures by which --auto chooses a topology; add --auto.")
        return None
    level = cast("BudgetLevel | None", budget if budget in get_args(BudgetLevel) else None)
    return TopologyRequest(None if topology is None else topology_named(topology), level, profile)


def tenant_budget(budget: str | None) -> str | None:
    """The tenant's budget that --budget names; `None` if it is a budget level."""
    from teamwright.values.turns.envelope import BudgetLevel

    return None if budget in get_args(BudgetLevel) else budget


def apply_topology(source: Source, request: TopologyRequest, limits: Limits | None) -> Source:
    """Return the source with its team in the chosen topology, and print the choice with its reason."""
    from teamwright.lab.auto_topology import auto_source, plan_of
    from teamwright.lab.calibration.profile_file import read_profile
    from teamwright.strategies.plan.schedule.planner import PlannerSettings

    spec = source.manifest.teams.get(source.team)
    plan = None if spec is None else plan_of(spec)
    learnt = read_profile(request.profile) if request.profile is not None else None
    settings = None if spec is None or plan is None else _settings(spec, plan, request, learnt)
    tokens = limits.tokens if limits else None
    planner = PlannerSettings() if tokens is None else PlannerSettings(run_budget=tokens)
    made, chosen = auto_source(source, settings, planner=planner, own_runs=learnt.own_runs if learnt else {})
    say(f"{chosen.topology}: {chosen.reason}")
    return made


def plan_is_self_contained(source: Source) -> bool:
    """Whether every step of the team's plan has a task of its own, so that the run needs none."""
    from teamwright.lab.auto_topology import plan_of

    spec = source.manifest.teams.get(source.team)
    plan = None if spec is None else plan_of(spec)
    return plan is not None and all(step.task for step in plan.steps)


def _settings(spec: TeamSpec, plan: Plan, request: TopologyRequest, learnt: Calibration | None) -> EvaluationSettings:
    """The evaluation settings for a team and its plan, with the user's options."""
    from teamwright.lab.auto_topology import settings_of
    from teamwright.lab.topology.bundle import settings_for

    usual = settings_for(plan, learnt.average_tokens if learnt else None)
    settings = settings_of(spec, usual, request.budget)
    return settings if request.topology is None else settings.model_copy(update={"topologies": (request.topology,)})
