"""`teamwright run --auto`: a team gets the shape that suits its plan, and the user is told which and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from teamwright.cli.terminal.output import say

if TYPE_CHECKING:
    from teamwright.planning.topology.model import EvaluationSettings
    from teamwright.planning.topology.profiles import Topology
    from teamwright.values.limits.limits import Limits
    from teamwright.values.specs.manifest import Source, TeamSpec
    from teamwright.values.specs.plan import Plan
    from teamwright.values.turns.envelope import BudgetLevel

Auto = Annotated[
    bool, typer.Option("--auto", help="Choose the shape of the team for its plan: single, lead, star or mesh.")
]
TopologyName = Annotated[
    str | None,
    typer.Option("--topology", metavar="NAME", help="Like --auto, in this shape: single, lead, star, mesh."),
]
Budget = Annotated[
    str | None, typer.Option("--budget", metavar="LEVEL", help="The budget to choose for: low, medium or high.")
]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user says about the shape of the team."""

    topology: Topology | None = None
    budget: BudgetLevel | None = None
    profile: str | None = None


def wished(topology: str | None, budget: str | None, profile: str | None, *, auto: bool) -> Wish | None:
    """What the user says about the shape; nothing, if the team is to run as it is."""
    from teamwright.errors import UnknownName, UsageError
    from teamwright.planning.topology.profiles import topology_named
    from teamwright.values.turns.envelope import BudgetLevel

    if not auto and topology is None:
        if budget is not None:
            raise UsageError("--budget says for which budget a shape is chosen; it goes with --auto.")
        if profile is not None:
            raise UsageError("--profile says by which figures a shape is chosen; it goes with --auto.")
        return None
    if budget is not None and budget not in get_args(BudgetLevel):
        raise UnknownName("budget", budget, get_args(BudgetLevel))
    level = cast("BudgetLevel | None", budget)
    return Wish(None if topology is None else topology_named(topology), level, profile)


def shaped(source: Source, wish: Wish, limits: Limits | None) -> Source:
    """The source with its team in another shape, and a word about the choice."""
    from teamwright.lab.calibration.profile_file import profiles_of
    from teamwright.planning.schedule.planner import PlannerSettings
    from teamwright.teams.auto_topology import auto_source, plan_of

    spec = source.manifest.teams.get(source.team)
    plan = None if spec is None else plan_of(spec)
    settings = None if spec is None or plan is None else _settings(spec, plan, wish)
    tokens = limits.tokens if limits else None
    planner = PlannerSettings() if tokens is None else PlannerSettings(run_budget=tokens)
    made, chosen = auto_source(source, settings, planner=planner, profiles=profiles_of(wish.profile))
    say(f"{chosen.topology}: {chosen.reason}")
    return made


def plan_says_it_all(source: Source) -> bool:
    """Whether every step of the team's plan says itself what to do, so that the team needs no task beside it."""
    from teamwright.teams.auto_topology import plan_of

    spec = source.manifest.teams.get(source.team)
    plan = None if spec is None else plan_of(spec)
    return plan is not None and all(step.task for step in plan.steps)


def _settings(spec: TeamSpec, plan: Plan, wish: Wish) -> EvaluationSettings:
    """The settings for a team and its plan, with what the user wishes."""
    from teamwright.planning.bundle import settings_for
    from teamwright.teams.auto_topology import settings_of

    settings = settings_of(spec, settings_for(plan), wish.budget)
    return settings if wish.topology is None else settings.model_copy(update={"topologies": (wish.topology,)})
