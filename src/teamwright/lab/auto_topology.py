"""Puts a team into the topology that is decided for its plan, among those that its members allow.

The topologies are evaluated and the plan is scheduled for the chosen one: deterministic, and nothing is started. The
decision, its reason and the whole bundle are recorded with the run; a resume uses the record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import JsonValue

from teamwright.agents.agent import Agent
from teamwright.errors import UsageError
from teamwright.lab.topology_decision import NO_RUNS, Decision, OwnRuns, average_tokens, decide, plan_work
from teamwright.lab.topology_model import (
    TOPOLOGIES,
    EvaluationSettings,
    Recommendation,
    Score,
    Topology,
    TopologyProfiles,
    TopologyReport,
    evaluate,
    planner_settings,
)
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.schedule import DEFAULT_LIMITS
from teamwright.strategies.plan.schedule_maker import DEFAULT_SETTINGS, UNNAMED, PlannerSettings, Prepared, prepare
from teamwright.strategies.plan.steps.step_options import STEPS
from teamwright.strategies.protocol import Strategy
from teamwright.strategies.registry import find_strategy
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.specs.manifest import Manifest, Source, TeamSpec
from teamwright.values.specs.members import Share
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.messages import BudgetLevel, EnvelopeLimits, EnvelopeSettings


@dataclass(frozen=True, slots=True)
class Bundle:
    """A prepared plan, and the evaluation of topologies that determined its settings.

    With a `decision`, the evaluation's recommendation is what was decided.
    """

    evaluation: TopologyReport
    prepared: Prepared
    decision: Decision | None = None

    def to_json(self) -> dict[str, JsonValue]:
        return {
            **self.prepared.to_json(),
            "evaluation": self.evaluation.to_json(),
            "planner_settings": self.prepared.settings.model_dump(mode="json"),
            **({} if self.decision is None else {"decision": self.decision.to_json()}),
        }


def orchestrate(
    plan: Plan,
    settings: EvaluationSettings | None = None,
    *,
    planner: PlannerSettings = DEFAULT_SETTINGS,
    profiles: TopologyProfiles = TOPOLOGIES,
    run_id: str = UNNAMED,
    policy: EnvelopeLimits = DEFAULT_LIMITS,
    decision: Decision | None = None,
) -> Bundle:
    """Choose the topology for a plan, unless it was decided, and prepare the plan for it.

    By default the topologies are evaluated for as many tasks as the plan has steps, of their average size. Fields that
    are set in `planner` take precedence over those derived from the topology. `profiles` are the figures of the
    topologies.
    """
    evaluation = evaluate(settings or settings_for(plan), profiles)
    if decision is not None:
        evaluation = replace(evaluation, recommendation=_recommendation(decision, evaluation.settings))
    derived = planner_settings(evaluation.chosen, plan, evaluation.settings.budget)
    chosen = derived.model_copy(update=planner.model_dump(exclude_unset=True))
    return Bundle(evaluation, prepare(plan, chosen, run_id=run_id, policy=policy), decision)


def _recommendation(decision: Decision, settings: EvaluationSettings) -> Recommendation:
    within = [one for one in decision.shapes if one.within_gates]
    return Recommendation(
        preference=settings.recommendation,
        topology=decision.topology,
        pool="passing" if within else "all",
        scores=tuple(
            Score(topology=one.topology, score=one.score, passed=one.within_gates) for one in within or decision.shapes
        ),
    )


def settings_for(plan: Plan, usual_tokens: int | None = None) -> EvaluationSettings:
    """Return the default settings with the number and average size of a plan's steps.

    `usual_tokens` is the size of a step if the plan estimates none.
    """
    tokens = average_tokens(plan) or usual_tokens
    usual = EvaluationSettings(tasks=len(plan.steps))
    return usual.model_copy(update={"average_tokens": tokens}) if tokens else usual


KEPT_OPTIONS = ("on_failure", "rounds_of_talk")
"""Options that a team keeps when its topology changes."""

ONE_WORKER: frozenset[Topology] = frozenset(("single", "lead_subagent"))
"""The topologies in which one member works on all steps."""


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
    planner: PlannerSettings = DEFAULT_SETTINGS,
    profiles: TopologyProfiles = TOPOLOGIES,
    own_runs: Mapping[Topology, OwnRuns] = NO_RUNS,
    skill: float | None = None,
    lead: str | None = None,
) -> ChosenTopology:
    """Choose the topology in which these members execute a plan, among those that are possible with them.

    The default `lead` is the first member that no step names. See `decide` for `profiles`, `own_runs` and `skill`.
    """
    named = _named_members(plan, members)
    leads = _lead(members, named, lead)
    possible = possible_topologies(plan, members, lead)
    given = settings or settings_for(plan)
    requested = given.topologies
    topologies: tuple[Topology, ...] = tuple(one for one in possible if one in requested)
    if not topologies:
        raise UsageError(
            f"{', '.join(requested)}: not possible with {len(members)} members, of whom the steps name {len(named)},"
            f" and {leads!r} as the lead; possible: {', '.join(possible)}."
        )
    given = given.model_copy(update={"topologies": topologies})
    work = plan_work(plan, usual_tokens=given.average_tokens)
    decision = decide(work, given, members=len(members), skill=skill, profiles=profiles, own_runs=own_runs)
    bundle = orchestrate(plan, given, planner=planner, profiles=decision.profiles, decision=decision)
    topology, reason = decision.topology, _reason(decision, bundle)
    options = _options(topology, plan, bundle, leads, len(members)) | {"reason": reason}
    if named and topology in ONE_WORKER:
        options["pool"] = [min(named)]
    return ChosenTopology(topology, options, reason, bundle)


def possible_topologies(plan: Plan | None, members: Sequence[str], lead: str | None = None) -> tuple[Topology, ...]:
    """The topologies for which a team has the members; without a plan, no step names any of them.

    A topology with one worker is possible only if the steps name at most one member, who becomes the worker.
    """
    named = set[str]() if plan is None else _named_members(plan, members)
    found: list[Topology] = []
    if len(named) < 2:
        found.append("single")
        if len(members) > 1 and _lead(members, named, lead) not in named:
            found.append("lead_subagent")
    if len(members) > 2 or (len(members) == 2 and len(named) > 1):
        found.append("star_team")
    if len(members) > 2:
        found.append("mesh_team")
    return tuple(found)


def auto_team(
    plan: Plan,
    members: Sequence[Agent],
    settings: EvaluationSettings | None = None,
    *,
    name: str = "auto",
    planner: PlannerSettings = DEFAULT_SETTINGS,
    profiles: TopologyProfiles = TOPOLOGIES,
    own_runs: Mapping[Topology, OwnRuns] = NO_RUNS,
    lead: str | None = None,
    share: Share | None = None,
    envelope: EnvelopeSettings | None = None,
    limits: Limits | None = None,
    on_failure: str = "fail",
) -> Team:
    """Return a team of these members in the topology that suits the plan and the budget; `team.bundle` says why.

    `own_runs` are those of a `Calibration`.
    """
    names = [member.name for member in members]
    chosen = choose(plan, names, settings, planner=planner, profiles=profiles, own_runs=own_runs, lead=lead)
    team = Team(
        name,
        members=members,
        strategy=chosen.topology,
        options=chosen.options | {"on_failure": on_failure},
        share=share,
        envelope=envelope,
        limits=limits,
    )
    team.bundle = chosen.bundle.to_json()
    return team


def auto_source(
    source: Source,
    settings: EvaluationSettings | None = None,
    *,
    planner: PlannerSettings = DEFAULT_SETTINGS,
    profiles: TopologyProfiles = TOPOLOGIES,
    own_runs: Mapping[Topology, OwnRuns] = NO_RUNS,
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
    chosen = choose(
        plan,
        spec.members,
        settings,
        planner=planner,
        profiles=profiles,
        own_runs=own_runs,
        skill=declared_skill(source.manifest, spec),
        lead=declared_lead(spec.options),
    )
    known = find_strategy(chosen.topology).options
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
    return plan_in(find_strategy(spec.strategy), spec.options)


def plan_in(strategy: Strategy, options: Mapping[str, JsonValue]) -> Plan | None:
    """The plan in the options of a strategy that executes one."""
    model = strategy.options
    if model is None or not issubclass(model, PlanOptions):
        return None
    return Plan(steps=model.model_validate(options).steps)


def declared_lead(options: Mapping[str, JsonValue]) -> str | None:
    """The lead that the options of a team name."""
    lead = options.get("lead")
    return lead if isinstance(lead, str) else None


def declared_skill(manifest: Manifest, spec: TeamSpec) -> float | None:
    """The mean of the skills that a manifest declares for the simulation of a team's members."""
    usual = spec.simulation.skill if spec.simulation else None
    agents = [manifest.agents[name].simulation if name in manifest.agents else None for name in spec.members]
    own = [agent.skill if agent and agent.skill is not None else usual for agent in agents]
    skills = [skill for skill in own if skill is not None]
    return sum(skills) / len(skills) if skills else None


def settings_of(spec: TeamSpec, usual: EvaluationSettings, budget: BudgetLevel | None = None) -> EvaluationSettings:
    """Return the evaluation settings for a team: its `share`, and its budget level if none is given."""
    update: dict[str, object] = {}
    level = budget or (spec.envelope.budget if spec.envelope else None)
    if level is not None:
        update["budget"] = level
    if spec.share in ("transcript", "output"):
        update["protocol"] = "transcript"
    return usual.model_copy(update=update)


def _named_members(plan: Plan, members: Sequence[str]) -> set[str]:
    known = set(members)
    return {name for step in plan.steps if (name := step.agent or step.id) in known}


def _lead(members: Sequence[str], named: Collection[str], lead: str | None) -> str:
    return lead or next((name for name in members if name not in named), members[0])


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


def _reason(decision: Decision, bundle: Bundle) -> str:
    modelled, chosen = bundle.evaluation.chosen, decision.chosen
    figures = (
        f"about {chosen.total_tokens} tokens, {modelled.coordination_ratio:.0%} of them talk,"
        f" {chosen.pass_rate:.0%} of the steps right"
    )
    if len(decision.shapes) == 1:
        return f"the only shape that was considered: {figures}"
    among = ", ".join(bundle.evaluation.settings.topologies)
    work = f"{decision.work.divisible:.0%} of the work can be divided"
    return f"{decision.why}, out of {among}; {work}: {figures} ({decision.confidence.level} confidence)"
