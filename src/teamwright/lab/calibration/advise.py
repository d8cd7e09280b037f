"""Advice on the shape of a team for some work, which may be one agent, with the numbers it rests on and how sure it is.

Published findings come first; runs of one's own outweigh them by a plain rule, n runs against those of `PRIOR_RUNS`.
How often a shape is right is known only from runs in which somebody judged: others make no advice surer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import JsonValue

from teamwright.agents.protocol import Agent
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
"""Published findings count as much as so many runs of one's own."""
ABOUT_AS_WELL = 0.02
"""Scores that differ by less do not speak against the simpler shape."""
CLEARLY_AHEAD = 0.10
UNKNOWN_SHARE = 0.5
USUAL_TASK = 1400
DIVIDED = {"fan_out": 1.0}
"""How much of the work of a strategy can be done side by side, whatever its parts are."""

Level = Literal["low", "medium", "high"]


class KnownWork(Record, frozen=True):
    """The work as far as it is known; `divisible` is the share of its steps that need not wait for others."""

    steps: int
    longest_chain: int
    divisible: float
    average_tokens: int
    known: str


class ShapeFigures(Record, frozen=True):
    """One shape on this work. `own_runs` outweigh what was published by `weight`.

    `judged` is how many of their steps somebody judged: without any they say nothing of the pass rate.
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
    """How sure the advice is: by its lead over the next shape, and by how much it rests on judged runs of one's own."""

    level: Level
    value: float
    margin: float
    own_runs: int
    weight: float


@dataclass(frozen=True, slots=True)
class Advice:
    """Which shape to use, and why."""

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
    """Say which shape to use for a team's work; `divisible` is the share of it that can be divided, if one knows.

    Without a `budget` it is the one that the team says for its handoffs, else medium.
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
    alone = _alone(made, fits.get("single"), settings)
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
    """The work that a team has, by its steps where these are known beforehand."""
    steps = steps_of(team)
    many = len(steps) or max(1, len(team.members))
    chain = _longest_chain(steps) if steps else None
    if divisible is not None:
        share, known = divisible, "as you say"
    elif chain is not None:
        share, known = (many - chain) / (many - 1) if many > 1 else 0.0, "by what the steps need"
    elif team.strategy.name in DIVIDED:
        share, known = DIVIDED[team.strategy.name], f"by the strategy {team.strategy.name!r}"
    else:
        share, known = UNKNOWN_SHARE, "not known beforehand: say it with --divisible"
    longest = chain if chain is not None and divisible is None else round(many - share * (many - 1))
    average = average_tokens(steps) or (profile.average_tokens if profile else None) or USUAL_TASK
    return KnownWork(steps=many, longest_chain=longest, divisible=round(share, 4), average_tokens=average, known=known)


def own_weight(runs: int) -> float:
    """How much runs of one's own count, of one: half as soon as there are as many as findings count for."""
    return runs / (runs + PRIOR_RUNS)


def blended(profile: TopologyProfile, fit: Fit | None) -> TopologyProfile:
    """The built-in numbers and those of own runs, each by its weight; the pass rate is no part of it."""
    if fit is None:
        return profile
    weight, changed = own_weight(fit.runs), dict[str, float]()
    for name in FITTED:
        value = cast("float | None", getattr(fit, name))
        if value is not None and name != "pass_rate":
            changed[name] = weight * value + (1 - weight) * cast("float", getattr(profile, name))
    return profile._replace(**changed)


def _alone(team: Team, fit: Fit | None, settings: EvaluationSettings) -> float:
    """How often one agent is right: by what members are declared to be, else by the model; own runs outweigh both."""
    declared = declared_behaviour(team)
    own = [declared[one.name] for one in team.everyone() if one.name in declared]
    skills = [one.skill for one in own if one.skill is not None]
    told = evaluate_topology("single", settings).pass_rate
    return _observed("single", sum(skills) / len(skills) if skills else told, fit, settings)


def _observed(topology: Topology, prior: float, fit: Fit | None, settings: EvaluationSettings) -> float:
    """A pass rate and what own runs say of it. Runs in which nobody judged a step say nothing."""
    if fit is None or fit.pass_rate is None or not fit.judged:
        return prior
    weight = own_weight(fit.runs)
    seen = evaluate_topology(topology, settings, {topology: fit.over(TOPOLOGIES[topology])}).pass_rate
    return weight * seen + (1 - weight) * prior


def _figures(
    topology: Topology, fit: Fit | None, work: KnownWork, settings: EvaluationSettings, alone: float
) -> ShapeFigures:
    profile = blended(TOPOLOGIES[topology], fit)
    found = evaluate_topology(topology, settings, {topology: profile})
    rate = alone
    if topology != "single":
        prior = min(BEST_PASS_RATE, alone * (1 + change_by_team(work.divisible, alone)))
        rate = _observed(topology, prior, fit, settings)
    # No team is faster than its longest chain of steps, whatever its width.
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
    """The shapes with their scores, best first; of equal ones the simpler first."""
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
    """The best shape, or a simpler one that does about as well."""
    best = shapes[0]
    alone = next(one for one in shapes if one.topology == "single")
    if best is not alone and best.score - alone.score < ABOUT_AS_WELL:
        return alone, [f"{best.topology} is ahead by {best.score - alone.score:.3f} only: one agent is simpler"]
    if best.topology not in CENTRAL and best is not alone:
        led = next((one for one in shapes if one.topology in CENTRAL), None)
        if led is not None and best.score - led.score < ABOUT_AS_WELL:
            return led, [f"{best.topology} does about as well, but nobody there stops an error from spreading"]
    if best is alone:
        return best, []
    return best, [f"{best.topology} scores {best.score:.3f} and one agent {alone.score:.3f}, in quality, cost and time"]


def _confidence(shapes: Sequence[ShapeFigures], chosen: ShapeFigures) -> Confidence:
    """Half by the lead over the next shape, half by the weight of own runs of the two in which somebody judged."""
    other = next(one for one in shapes if one is not chosen)
    margin, weight = chosen.score - other.score, min(one.weight if one.judged else 0.0 for one in (chosen, other))
    value = round(0.5 * min(1.0, max(0.0, margin) / CLEARLY_AHEAD) + 0.5 * weight, 2)
    level: Level = "high" if value >= 0.67 else "medium" if value >= 0.34 else "low"
    own = min(chosen.own_runs, other.own_runs)
    return Confidence(level=level, value=value, margin=round(margin, 4), own_runs=own, weight=weight)


def _reasons(work: KnownWork, shapes: Sequence[ShapeFigures], chosen: ShapeFigures, alone: float) -> tuple[str, ...]:
    """What speaks for the choice, in numbers."""
    single = next(one for one in shapes if one.topology == "single")
    other = next(one for one in shapes if one is not chosen)
    team = chosen if chosen is not single else next(one for one in shapes if one is not single)
    chain = f"{work.steps} steps, the longest chain {work.longest_chain}"
    said = [
        f"{chain}: {work.divisible:.0%} can be divided ({work.known})",
        f"one agent alone is taken to be right in {alone:.0%}, a {team.topology} in {team.pass_rate:.0%}",
        f"{_cost(chosen)}; {_cost(other)}",
    ]
    if chosen is not single and other is not single:
        said.append(_cost(single))
    return (*said, _own(shapes))


def _own(shapes: Sequence[ShapeFigures]) -> str:
    """What own runs have to say in it."""
    seen = [one for one in shapes if one.own_runs]
    if not seen:
        return "there are no runs of yours to go by: all of it rests on the model and on published findings"
    runs = ", ".join(f"{one.topology} {one.own_runs}" for one in seen)
    told = f"your own runs ({runs}) count n of n + {PRIOR_RUNS}, published findings the rest"
    unjudged = ", ".join(one.topology for one in seen if not one.judged)
    if not unjudged:
        return told
    return f"{told}; those of {unjudged} in tokens and time alone, since nobody judged a step there"


def _cost(shape: ShapeFigures) -> str:
    return f"{shape.topology}: {shape.total_tokens} tokens and {shape.seconds:g} s"


def _longest_chain(steps: Sequence[dict[str, JsonValue]]) -> int:
    """How many steps of the longest chain stand on each other."""
    graph = StepGraph.from_nodes(
        [StepNode(str(step["id"]), cast("Sequence[str]", step.get("needs") or ())) for step in steps]
    )
    return len(critical_path(graph.order, graph.needs))
