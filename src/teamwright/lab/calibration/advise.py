"""Recommends a topology for a team's work, perhaps a single agent, with the numbers behind it and a confidence.

Advice starts from published findings; n runs of the user's own have the weight n / (n + `PRIOR_RUNS`). Only runs with
judged steps count for pass rates and for the confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent
from teamwright.errors import UsageError
from teamwright.lab.calibration.calibrate import FITTED, Calibration, Fit
from teamwright.lab.calibration.published_priors import CENTRAL, Prior, change_by_team, priors
from teamwright.lab.simulation.agents import declared_behaviour
from teamwright.lab.simulation.topologies import average_tokens, spec_of, steps_of
from teamwright.planning.graph import StepGraph, StepNode
from teamwright.planning.schedule.diagnostics import critical_path
from teamwright.planning.topology.formulas import BEST_PASS_RATE, score
from teamwright.planning.topology.model import EvaluationSettings, evaluate_topology
from teamwright.planning.topology.profiles import (
    PREFERENCES,
    TOPOLOGIES,
    TOPOLOGY_NAMES,
    WORKLOADS,
    BudgetLevel,
    Preference,
    Topology,
    TopologyProfile,
    Workload,
)
from teamwright.teams.auto_topology import settings_of
from teamwright.teams.team import Team, require_team
from teamwright.values.models import Record

PRIOR_RUNS = 10
"""Published findings weigh as much as so many runs of the user's own."""
ABOUT_AS_WELL = 0.02
"""If scores differ by less, the simpler topology is chosen."""
CLEARLY_AHEAD = 0.10
UNKNOWN_SHARE = 0.5
USUAL_TASK = 1400
DIVIDED = {"fan_out": 1.0}
"""The share of a strategy's work that can run in parallel, whatever its parts are."""

Level = Literal["low", "medium", "high"]


class KnownWork(Record, frozen=True):
    """The work as far as it is known; `divisible` is the share of its steps that can run in parallel."""

    steps: int
    longest_chain: int
    divisible: float
    average_tokens: int
    known: str


class ShapeFigures(Record, frozen=True):
    """One topology on this work. `weight` is the weight of `own_runs` against published findings.

    `judged` counts the judged steps of these runs; without any, they say nothing about the pass rate.
    """

    topology: Topology
    score: float
    pass_rate: float
    total_tokens: int
    seconds: float
    own_runs: int
    weight: float
    judged: int


class Confidence(Record, frozen=True):
    """How certain the advice is: by its margin over the next topology, and by the weight of the user's judged runs."""

    level: Level
    value: float
    margin: float
    own_runs: int
    weight: float


@dataclass(frozen=True, slots=True)
class Advice:
    """Which topology to use, and why."""

    team: str
    task: str
    strategy: str
    recommended: Topology
    confidence: Confidence
    work: KnownWork
    shapes: tuple[ShapeFigures, ...]
    reasons: tuple[str, ...]
    priors: tuple[Prior, ...]

    @property
    def sentence(self) -> str:
        """The advice in a sentence."""
        what = "one agent" if self.recommended == "single" else f"a {self.recommended}"
        return f"Use {what} for this work ({self.confidence.level} confidence, {self.confidence.value:.2f})."

    def to_json(self) -> dict[str, JsonValue]:
        """As data."""
        return {
            "team": self.team,
            "task": self.task,
            "strategy": self.strategy,
            "recommended": self.recommended,
            "sentence": self.sentence,
            "confidence": self.confidence.to_json(),
            "work": self.work.to_json(),
            "shapes": [one.to_json() for one in self.shapes],
            "reasons": list[JsonValue](self.reasons),
            "priors": [one.to_json() for one in self.priors],
        }


def advise(
    team: Agent,
    task: str,
    *,
    profile: Calibration | None = None,
    divisible: float | None = None,
    budget: BudgetLevel | None = None,
    workload: Workload = "mixed",
    recommend: Preference = "balanced",
) -> Advice:
    """Recommend a topology for a team's work; `divisible` is the share of it that can be divided, if it is known.

    The default of `budget` is the level that the team declares for its handoffs, else medium.
    """
    if divisible is not None and not 0 <= divisible <= 1:
        raise UsageError(f"divisible is {divisible:g}, expected a number from 0 to 1.")
    made = require_team(team)
    work = work_of(made, divisible, profile)
    usual = EvaluationSettings(
        tasks=work.steps, average_tokens=work.average_tokens, workload=workload, recommendation=recommend
    )
    settings = settings_of(spec_of(made), usual, budget)
    fits = profile.topologies if profile else {}
    alone = _single_pass_rate(made, fits.get("single"), settings)
    shapes = _scored([_figures(one, fits.get(one), work, settings, alone) for one in TOPOLOGY_NAMES], recommend)
    chosen, why = _choice(shapes)
    confidence = _confidence(shapes, chosen)
    reasons = (*_reasons(work, shapes, chosen, alone), *why)
    return Advice(
        team=made.name,
        task=task,
        strategy=made.strategy.name,
        recommended=chosen.topology,
        confidence=confidence,
        work=work,
        shapes=shapes,
        reasons=reasons,
        priors=priors(work.divisible, alone),
    )


def work_of(team: Team, divisible: float | None = None, profile: Calibration | None = None) -> KnownWork:
    """Estimate the work of a team, from its steps if they are known in advance."""
    steps = steps_of(team)
    many = len(steps) or max(1, len(team.members))
    chain = _longest_chain(steps) if steps else None
    if divisible is not None:
        share, known = divisible, "as given"
    elif chain is not None:
        share, known = (many - chain) / (many - 1) if many > 1 else 0.0, "from the dependencies of the steps"
    elif team.strategy.name in DIVIDED:
        share, known = DIVIDED[team.strategy.name], f"from the strategy {team.strategy.name!r}"
    else:
        share, known = UNKNOWN_SHARE, "not known in advance: set it with --divisible"
    longest = chain if chain is not None and divisible is None else round(many - share * (many - 1))
    average = average_tokens(steps) or (profile.average_tokens if profile else None) or USUAL_TASK
    return KnownWork(steps=many, longest_chain=longest, divisible=round(share, 4), average_tokens=average, known=known)


def own_weight(runs: int) -> float:
    """The weight of the user's own runs, from 0 to 1; it is one half at `PRIOR_RUNS` runs."""
    return runs / (runs + PRIOR_RUNS)


def blend(profile: TopologyProfile, fit: Fit | None) -> TopologyProfile:
    """The weighted mean of the built-in numbers and those of own runs, except for the pass rate."""
    if fit is None:
        return profile
    weight, changed = own_weight(fit.runs), dict[str, float]()
    for name in FITTED:
        value = cast("float | None", getattr(fit, name))
        if value is not None and name != "pass_rate":
            changed[name] = weight * value + (1 - weight) * cast("float", getattr(profile, name))
    return profile._replace(**changed)


def _single_pass_rate(team: Team, fit: Fit | None, settings: EvaluationSettings) -> float:
    """The pass rate of one agent: the declared skill of the members, else the model's, blended with own runs."""
    declared = declared_behaviour(team)
    own = [declared[one.name] for one in team.everyone() if one.name in declared]
    skills = [one.skill for one in own if one.skill is not None]
    modelled = evaluate_topology("single", settings).pass_rate
    return _blend_pass_rate("single", sum(skills) / len(skills) if skills else modelled, fit, settings)


def _blend_pass_rate(topology: Topology, prior: float, fit: Fit | None, settings: EvaluationSettings) -> float:
    """The weighted mean of a prior pass rate and that of own runs, which count only if their steps were judged."""
    if fit is None or fit.pass_rate is None or not fit.judged:
        return prior
    weight = own_weight(fit.runs)
    seen = evaluate_topology(topology, settings, {topology: fit.over(TOPOLOGIES[topology])}).pass_rate
    return weight * seen + (1 - weight) * prior


def _figures(
    topology: Topology, fit: Fit | None, work: KnownWork, settings: EvaluationSettings, alone: float
) -> ShapeFigures:
    profile = blend(TOPOLOGIES[topology], fit)
    found = evaluate_topology(topology, settings, {topology: profile})
    rate = alone
    if topology != "single":
        prior = min(BEST_PASS_RATE, alone * (1 + change_by_team(work.divisible, alone)))
        rate = _blend_pass_rate(topology, prior, fit, settings)
    # No team is faster than its longest chain of steps, however many members it has.
    waiting = max(0.0, work.longest_chain - work.steps / found.parallelism)
    seconds = found.p95_latency_s + waiting * profile.seconds_per_task * WORKLOADS[settings.workload].latency
    runs = fit.runs if fit else 0
    return ShapeFigures(
        topology=topology,
        score=0.0,
        pass_rate=round(rate, 4),
        total_tokens=found.total_tokens,
        seconds=round(seconds, 2),
        own_runs=runs,
        weight=round(own_weight(runs), 4),
        judged=fit.judged if fit else 0,
    )


def _scored(shapes: Sequence[ShapeFigures], preference: Preference) -> tuple[ShapeFigures, ...]:
    """The topologies with their scores, best first; at equal scores, the simpler one first."""
    most, slowest = max(one.total_tokens for one in shapes), max(one.seconds for one in shapes)
    weights = PREFERENCES[preference]
    scored = [
        one.changed(
            score=score(weights, one.pass_rate, one.total_tokens, one.seconds, most_tokens=most, slowest=slowest)
        )
        for one in shapes
    ]
    return tuple(sorted(scored, key=lambda one: -one.score))


def _choice(shapes: Sequence[ShapeFigures]) -> tuple[ShapeFigures, list[str]]:
    """The best topology, or a simpler one with about the same score; and the reason."""
    best = shapes[0]
    alone = next(one for one in shapes if one.topology == "single")
    if best is not alone and best.score - alone.score < ABOUT_AS_WELL:
        return alone, [f"{best.topology} is ahead by only {best.score - alone.score:.3f}, and one agent is simpler"]
    if best.topology not in CENTRAL and best is not alone:
        led = next((one for one in shapes if one.topology in CENTRAL), None)
        if led is not None and best.score - led.score < ABOUT_AS_WELL:
            return led, [f"{best.topology} scores about the same, but has no lead to stop an error from spreading"]
    if best is alone:
        return best, []
    return best, [f"{best.topology} scores {best.score:.3f} and one agent {alone.score:.3f}, in quality, cost and time"]


def _confidence(shapes: Sequence[ShapeFigures], chosen: ShapeFigures) -> Confidence:
    """Half from the margin over the next topology, half from the weight of the judged own runs of both."""
    other = next(one for one in shapes if one is not chosen)
    margin, weight = chosen.score - other.score, min(one.weight if one.judged else 0.0 for one in (chosen, other))
    value = round(0.5 * min(1.0, max(0.0, margin) / CLEARLY_AHEAD) + 0.5 * weight, 2)
    level: Level = "high" if value >= 0.67 else "medium" if value >= 0.34 else "low"
    own = min(chosen.own_runs, other.own_runs)
    return Confidence(level=level, value=value, margin=round(margin, 4), own_runs=own, weight=weight)


def _reasons(work: KnownWork, shapes: Sequence[ShapeFigures], chosen: ShapeFigures, alone: float) -> tuple[str, ...]:
    """The reasons for the choice, in numbers."""
    single = next(one for one in shapes if one.topology == "single")
    other = next(one for one in shapes if one is not chosen)
    team = chosen if chosen is not single else next(one for one in shapes if one is not single)
    chain = f"{work.steps} steps, the longest chain {work.longest_chain}"
    reasons = [
        f"{chain}: {work.divisible:.0%} can be divided ({work.known})",
        f"one agent alone is assumed to be right in {alone:.0%}, a {team.topology} in {team.pass_rate:.0%}",
        f"{_cost(chosen)}; {_cost(other)}",
    ]
    if chosen is not single and other is not single:
        reasons.append(_cost(single))
    return (*reasons, _own_runs_reason(shapes))


def _own_runs_reason(shapes: Sequence[ShapeFigures]) -> str:
    """How much the user's own runs count."""
    seen = [one for one in shapes if one.own_runs]
    if not seen:
        return "there are no runs of yours: the advice uses only the model and published findings"
    runs = ", ".join(f"{one.topology} {one.own_runs}" for one in seen)
    weights = f"n of your own runs ({runs}) weigh n / (n + {PRIOR_RUNS}), published findings the rest"
    unjudged = ", ".join(one.topology for one in seen if not one.judged)
    if not unjudged:
        return weights
    return f"{weights}; runs of {unjudged} count only for tokens and time, because none of their steps was judged"


def _cost(shape: ShapeFigures) -> str:
    return f"{shape.topology}: {shape.total_tokens} tokens and {shape.seconds:g} s"


def _longest_chain(steps: Sequence[dict[str, JsonValue]]) -> int:
    """The number of steps in the longest chain of dependencies."""
    graph = StepGraph.from_nodes(
        [StepNode(str(step["id"]), cast("Sequence[str]", step.get("needs") or ())) for step in steps]
    )
    return len(critical_path(graph.order, graph.needs))
