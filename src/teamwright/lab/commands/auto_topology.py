"""`run --topology` and `plan --topology`: a topology for a plan; with `auto` the model of coordination chooses it."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from teamwright.cli.terminal.output import say
from teamwright.lab.commands.calibrate import Profile
from teamwright.values.text.display import count_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.lab.calibration import Calibration
    from teamwright.lab.topology_model import EvaluationSettings, Topology, TopologyReport
    from teamwright.strategies.plan.schedule_maker import PlannerSettings, Prepared
    from teamwright.values.limits import Limits
    from teamwright.values.specs.manifest import Source, TeamSpec
    from teamwright.values.specs.plan import Plan
    from teamwright.values.turns.messages import BudgetLevel


AUTO = "auto"
"""In place of a topology: the one that suits the plan best."""
TopologyName = Annotated[
    str | None,
    typer.Option("--topology", metavar="NAME", help="Run the team's plan as single, lead, star, mesh, or auto."),
]
Level = Annotated[
    str | None,
    typer.Option("--budget-level", metavar="LEVEL", help="The budget level for --topology: low, medium or high."),
]


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """Puts the team of a run into a topology: the given one, or that which suits its plan."""

    topology: Topology | None = None
    level: BudgetLevel | None = None
    profile: str | None = None

    def apply(self, source: Source, limits: Limits | None) -> Source:
        """Return the source with its team in the chosen topology, and print the choice with its reason."""
        from teamwright.lab.auto_topology import auto_source, plan_of
        from teamwright.lab.calibration import read_profile
        from teamwright.strategies.plan.schedule_maker import PlannerSettings

        spec = source.manifest.teams.get(source.team)
        plan = None if spec is None else plan_of(spec)
        learnt = read_profile(self.profile) if self.profile is not None else None
        settings = None if spec is None or plan is None else _settings(spec, plan, self, learnt)
        tokens = limits.tokens if limits else None
        planner = PlannerSettings() if tokens is None else PlannerSettings(run_budget=tokens)
        made, chosen = auto_source(source, settings, planner=planner, own_runs=learnt.own_runs if learnt else {})
        say(f"{chosen.topology}: {chosen.reason}")
        return made

    def task(self, source: Source) -> str | None:
        """Return a task if every step of the team's plan has one of its own."""
        from teamwright.lab.auto_topology import plan_of

        spec = source.manifest.teams.get(source.team)
        plan = None if spec is None else plan_of(spec)
        is_whole = plan is not None and all(step.task for step in plan.steps)
        return "Work through the plan." if is_whole else None


class TopologyOptions:
    """The options of `run` that choose a topology."""

    parameters = (
        Parameter("topology", Parameter.KEYWORD_ONLY, default=None, annotation=TopologyName),
        Parameter("budget_level", Parameter.KEYWORD_ONLY, default=None, annotation=Level),
        Parameter("profile", Parameter.KEYWORD_ONLY, default=None, annotation=Profile),
    )

    def read(self, topology: str | None, budget_level: str | None, profile: str | None) -> TopologyChange | None:
        """Return the change that the options ask for, or None if the team runs as declared."""
        from teamwright.errors import UnknownName, UsageError
        from teamwright.lab.topology_model import topology_named
        from teamwright.values.turns.messages import BudgetLevel

        if topology is None:
            for option, value in (("--budget-level", budget_level), ("--profile", profile)):
                if value is not None:
                    raise UsageError(f"{option} is for the choice of a topology; add  --topology auto")
            return None
        levels = get_args(BudgetLevel)
        if budget_level is not None and budget_level not in levels:
            raise UnknownName("budget level", budget_level, levels)
        named = None if topology == AUTO else topology_named(topology)
        return TopologyChange(named, cast("BudgetLevel | None", budget_level), profile)


OPTIONS = TopologyOptions()


def _settings(spec: TeamSpec, plan: Plan, change: TopologyChange, learnt: Calibration | None) -> EvaluationSettings:
    """The evaluation settings for a team and its plan, with the user's options."""
    from teamwright.lab.auto_topology import settings_for, settings_of

    usual = settings_for(plan, learnt.average_tokens if learnt else None)
    settings = settings_of(spec, usual, change.level)
    return settings if change.topology is None else settings.model_copy(update={"topologies": (change.topology,)})


def bundle_plan(plan: Plan, settings: PlannerSettings, topology: str) -> tuple[Prepared, dict[str, JsonValue], str]:
    """Return the plan prepared for a topology, the whole bundle as JSON, and the evaluation as text."""
    from teamwright.lab.auto_topology import orchestrate, settings_for
    from teamwright.lab.topology_model import topology_named

    evaluated = settings_for(plan)
    if topology != AUTO:
        evaluated = evaluated.model_copy(update={"topologies": (topology_named(topology),)})
    bundle = orchestrate(plan, evaluated, planner=settings)
    return bundle.prepared, bundle.to_json(), _evaluation(bundle.evaluation)


def _evaluation(report: TopologyReport) -> str:
    from teamwright.lab.topology_report import section_of
    from teamwright.lab.topology_tables import section_table

    settings, choice = report.settings, report.recommendation
    head = (
        f"{count_text(settings.tasks, 'task')} of about {count_text(settings.average_tokens, 'token')},"
        f" {settings.workload} work, {settings.budget} budget, {settings.protocol}"
    )
    pool = "of those that pass their gates" if choice.pool == "passing" else "of all, because none passes its gates"
    table = section_table(section_of(report)).text()
    return f"{head}\n{table}\n{choice.topology}: the best by {choice.preference} score, {pool}"
