"""Chooses the topology of a team for its plan, from an evaluation of topologies.

The choice, its reason and the whole bundle are recorded with the run; a resume uses the record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent
from teamwright.errors import UsageError
from teamwright.planning.plan_bundle import Bundle, orchestrate, settings_for
from teamwright.planning.schedule.planner import USUAL, PlannerSettings
from teamwright.planning.topology.model import EvaluationSettings
from teamwright.planning.topology.profiles import TOPOLOGIES, Topology, TopologyProfiles
from teamwright.strategies.contract import options_of
from teamwright.strategies.plan.step_options import STEPS, StepOptions
from teamwright.strategies.registry import find_strategy
from teamwright.teams.team import Team
from teamwright.values.limits.limits import Limits
from teamwright.values.specs.manifest import Share, Source, TeamSpec
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.envelope import BudgetLevel, EnvelopeSettings

KEPT_OPTIONS = ("on_failure", "cancel_others", "peer_rounds")
"""Options that a team keeps when its topology changes."""

WORKER_OPTION: Mapping[Topology, str] = {"single": "member", "lead_subagent": "worker"}
"""The option of a topology that names the member who works on all steps."""


@dataclass(frozen=True, slots=True)
class ChosenTopology:
    """The topology chosen for a plan: the options of its strategy, the reason, and the evaluation behind it."""

    topology: Topology
    options: dict[str, JsonValue]
    reason: str
    bundle: Bundle


def choose(
    plan: Plan,
    members: Sequence[str],
    settings: EvaluationSettings | None = None,
    *,
    planner: PlannerSettings = USUAL,
    profiles: TopologyProfiles = TOPOLOGIES,
    lead: str | None = None,
) -> ChosenTopology:
    """Choose the topology in which these members execute a plan, among those that are possible with them.

    A topology with one worker is possible only if the steps name at most one member, who becomes the worker. The
    default `lead` is the first member that no step names.
    """
    named = _named_members(plan, members)
    leads = lead or next((name for name in members if name not in named), members[0])
    possible = _possible_topologies(len(members), named, leads)
    given = settings or settings_for(plan)
    requested = given.topologies
    topologies: tuple[Topology, ...] = tuple(one for one in possible if one in requested)
    if not topologies:
        raise UsageError(
            f"{', '.join(requested)}: not possible with {len(members)} members, of whom the steps name {len(named)},"
            f" and {leads!r} as the lead; possible: {', '.join(possible)}."
        )
    given = given.model_copy(update={"topologies": topologies})
    bundle = orchestrate(plan, given, planner=planner, profiles=profiles)
    topology = bundle.evaluation.chosen.topology
    reason = _reason(bundle, topologies)
    options = _options(topology, plan, bundle, leads, len(members)) | {"reason": reason}
    if named and (option := WORKER_OPTION.get(topology)):
        options[option] = min(named)
    return ChosenTopology(topology, options, reason, bundle)


def auto_team(
    plan: Plan,
    members: Sequence[Agent],
    settings: EvaluationSettings | None = None,
    *,
    name: str = "auto",
    planner: PlannerSettings = USUAL,
    profiles: TopologyProfiles = TOPOLOGIES,
    lead: str | None = None,
    share: Share | None = None,
    handoff: EnvelopeSettings | None = None,
    limits: Limits | None = None,
    on_failure: str = "fail",
) -> Team:
    """Return a team of these members in the topology that suits the plan and the budget; `team.bundle` says why."""
    names = [member.name for member in members]
    chosen = choose(plan, names, settings, planner=planner, profiles=profiles, lead=lead)
    team = Team(
        name,
        members=members,
        strategy=chosen.topology,
        options=chosen.options | {"on_failure": on_failure},
        share=share,
        handoff=handoff,
        limits=limits,
    )
    team.bundle = chosen.bundle.to_json()
    return team


def auto_source(
    source: Source,
    settings: EvaluationSettings | None = None,
    *,
    planner: PlannerSettings = USUAL,
    profiles: TopologyProfiles = TOPOLOGIES,
) -> tuple[Source, ChosenTopology]:
    """Return the source with its team in the topology that suits its plan; raises `UsageError` if it has no plan."""
    spec = source.manifest.teams.get(source.team)
    plan = None if spec is None else plan_of(spec)
    if spec is None or plan is None:
        what = "is an agent" if spec is None else f"works by the strategy {spec.strategy!r}"
        raise UsageError(
            f"{source.team!r} {what}, so its steps are not known beforehand: give a file of tasks, or a team with"
            " `strategy: dag` or one of the topologies."
        )
    lead = spec.options.get("lead")
    leads = lead if isinstance(lead, str) else None
    chosen = choose(plan, spec.members, settings, planner=planner, profiles=profiles, lead=leads)
    known = options_of(find_strategy(chosen.topology))
    kept = {
        name: spec.options[name]
        for name in KEPT_OPTIONS
        if name in spec.options and known and name in known.model_fields
    }
    update: dict[str, Any] = {"strategy": chosen.topology, "options": {**kept, **chosen.options}}
    manifest = source.manifest.model_copy(
        update={"teams": {**source.manifest.teams, source.team: spec.model_copy(update=update)}}
    )
    return source.model_copy(update={"manifest": manifest, "bundle": chosen.bundle.to_json()}), chosen


def plan_of(spec: TeamSpec) -> Plan | None:
    """The plan of a team whose strategy executes one; `None` if its steps are not known before the run."""
    if ":" in spec.strategy:  # a class of the user, which is imported only where the team is built
        return None
    model = options_of(find_strategy(spec.strategy))
    if model is None or not issubclass(model, StepOptions):
        return None
    return Plan(steps=model.model_validate(spec.options).steps)


def settings_of(spec: TeamSpec, usual: EvaluationSettings, budget: BudgetLevel | None = None) -> EvaluationSettings:
    """Return the evaluation settings for a team: its `share`, and its budget level if none is given."""
    update: dict[str, object] = {}
    level = budget or (spec.handoff.budget if spec.handoff else None)
    if level is not None:
        update["budget"] = level
    if spec.share in ("transcript", "output"):
        update["protocol"] = "transcript"
    return usual.model_copy(update=update)


def _named_members(plan: Plan, members: Sequence[str]) -> set[str]:
    """The members that the steps name."""
    known = set(members)
    return {name for step in plan.steps if (name := step.agent or step.id) in known}


def _possible_topologies(members: int, named: Collection[str], lead: str) -> list[Topology]:
    found: list[Topology] = []
    if len(named) < 2:
        found.append("single")
        if members > 1 and lead not in named:
            found.append("lead_subagent")
    if members > 2 or (members == 2 and len(named) > 1):
        found.append("star_team")
    if members > 2:
        found.append("mesh_team")
    return found


def _options(topology: Topology, plan: Plan, bundle: Bundle, lead: str, members: int) -> dict[str, JsonValue]:
    settings = bundle.prepared.settings
    steps = [step.model_dump(mode="json", exclude_unset=True) for step in plan.steps]
    options: dict[str, JsonValue] = {STEPS: cast("JsonValue", steps)}
    if topology != "single":
        options["lead"] = lead
    if topology in ("star_team", "mesh_team"):
        options["max_parallel"] = min(settings.max_parallel, max(1, members - 1))
        options["run_budget"] = settings.run_budget
        options["coordination_floor"] = settings.coordination_floor
    return options


def _reason(bundle: Bundle, topologies: Sequence[Topology]) -> str:
    made, settings, chosen = bundle.evaluation.recommendation, bundle.evaluation.settings, bundle.evaluation.chosen
    figures = (
        f"about {chosen.total_tokens} tokens, {chosen.coordination_ratio:.0%} of them talk,"
        f" {chosen.pass_rate:.0%} of the steps right"
    )
    if len(topologies) == 1:
        return f"the only shape that was considered: {figures}"
    best = f"the best {made.preference} score ({made.scores[0].score:.2f}) with a {settings.budget} budget"
    among = "those that keep to the gates" if made.pool == "passing" else "all, since none keeps to the gates"
    return f"{best} of {among}, out of {', '.join(topologies)}: {figures}"
