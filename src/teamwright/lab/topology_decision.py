"""Decides in which topology a team does its work, from what is known about the work before it runs.

`run --topology auto`, `auto_team` and `lab advise` all use this decision. The analytic model gives the tokens and the
time of each topology, for the longest chain of the work; published measurements give the pass rate of teams. n runs
of the user's own have the weight n / (n + `PRIOR_RUNS`) against both. Only judged steps count for pass rates. The
published figures summarize the 180 rows of arXiv 2512.08296; a test computes each of them again. Pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from pydantic import JsonValue

from teamwright.history.kpis import lower_bound
from teamwright.lab.topology_model import (
    BEST_PASS_RATE,
    BUDGETS,
    PREFERENCES,
    TOPOLOGIES,
    WORKLOADS,
    EvaluationSettings,
    Topology,
    TopologyProfile,
    TopologyProfiles,
    evaluate_topology,
    participants_of,
    score,
)
from teamwright.strategies.plan.schedule import StepGraph, StepNode, critical_path
from teamwright.values.specs.plan import Plan
from teamwright.values.value import Record

SCALING, EQUAL_TOKENS = "arXiv 2512.08296", "arXiv 2604.02460"

WorkKind = Literal["sequential", "mixed", "divisible"]
ALWAYS_ALONE = 19
"""In so many of the 36 cells, one agent came within 0.05 of the best shape."""
FAILURES_INDEPENDENT, FAILURES_CENTRAL = 1.30, 1.11
"""Failures divided by those of one agent, on average over cells."""
MOST_TRUST = 0.66
"""Each kind of work was measured on one or two benchmarks, so published figures alone never give high confidence."""
USUAL_TOKENS = 1400
"""The tokens of a step, if nothing is known about them."""
PRIOR_RUNS = 10
"""Published figures weigh as much as so many runs of the user's own."""
ABOUT_AS_WELL = 0.02
"""If a team's score is ahead of one agent's by less, one agent is chosen."""
CLEARLY_AHEAD = 0.10
MEDIUM, HIGH = 0.34, 0.67
Level = Literal["low", "medium", "high"]


class TeamEffect(NamedTuple):
    """How the pass rate of a coordinated team differs from that of one agent.

    On work that can be divided, a team removes a share of one agent's failures. On sequential work, it loses a share of
    one agent's successes. Other work lies in between.
    """

    removed: float
    lost: float


class HeldOut(NamedTuple):
    """In how many cells (a model on a benchmark) advice came within 0.05 of the best shape.

    The advice for a benchmark was fitted to the others.
    """

    within: int
    cells: int
    benchmarks: tuple[str, ...]


class MeanLoss(NamedTuple):
    """How much less than the best shape was solved on average, by advice and by one agent everywhere.

    `low` and `high` bound their difference when the benchmarks are drawn again.
    """

    advice: float
    alone: float
    low: float
    high: float


MEASURED = TeamEffect(removed=0.416, lost=0.435)
HELD_OUT: Mapping[WorkKind, HeldOut] = {
    "sequential": HeldOut(9, 9, ("PlanCraft",)),
    "mixed": HeldOut(9, 18, ("BrowseComp-Plus", "WorkBench")),
    "divisible": HeldOut(8, 9, ("Finance-Agent",)),
}
MEAN_LOSS = MeanLoss(advice=0.032, alone=0.103, low=0.0, high=0.212)


class Prior(Record, frozen=True):
    """A finding, its source, and what it means for this work."""

    finding: str
    source: str
    here: str


def team_pass_rate(divisible: float, alone: float, effect: TeamEffect = MEASURED) -> float:
    """The pass rate of a coordinated team on work on which one agent has the pass rate `alone`."""
    return alone + divisible * effect.removed * (1 - alone) - (1 - divisible) * effect.lost * alone


def work_kind(divisible: float) -> WorkKind:
    """The kind of benchmark that work with this divisible share resembles most."""
    return "sequential" if divisible < 0.25 else "mixed" if divisible <= 0.75 else "divisible"


def trust_in_published(divisible: float) -> float:
    """How far published figures can be trusted on work of this kind, from 0 to 1.

    It is the lower bound of the held-out share, at most `MOST_TRUST`.
    """
    found = HELD_OUT[work_kind(divisible)]
    return min(MOST_TRUST, lower_bound(found.within, found.cells))


def validation_reason(divisible: float) -> str:
    """How good advice like this was on benchmarks that it was not fitted to."""
    kind = work_kind(divisible)
    here, every = HELD_OUT[kind], HELD_OUT.values()
    within, cells = sum(one.within for one in every), sum(one.cells for one in every)
    return (
        f"on a benchmark it was not fitted to, such advice came within 0.05 of the best shape in {here.within} of"
        f" {here.cells} cases of {kind} work ({', '.join(here.benchmarks)}), and in {within} of {cells} overall, where"
        f" one agent everywhere came to {ALWAYS_ALONE}"
    )


def priors(divisible: float, alone: float) -> tuple[Prior, ...]:
    """The findings, and what each means for this work."""
    rate = team_pass_rate(divisible, alone)
    loss = MEAN_LOSS
    return (
        Prior(
            finding=f"a coordinated team removes {MEASURED.removed:.0%} of one agent's failures on work that can be"
            f" divided, and loses {MEASURED.lost:.0%} of its successes on sequential work",
            source=SCALING,
            here=f"{divisible:.0%} of this work can be divided: a team is estimated to be right in {rate:.0%}, and one"
            f" agent in {alone:.0%}",
        ),
        Prior(
            finding="above 45% right for one agent, no team gained in sequential planning (0 of 8 cases), but some team"
            " did in 8 of the 12 other cases",
            source=SCALING,
            here="no threshold is used",
        ),
        Prior(
            finding=f"tasks fail {FAILURES_INDEPENDENT:.2f} times as often with independent agents as with one, and"
            f" {FAILURES_CENTRAL:.2f} times with a lead; the often cited 17 and 4 times are ratios of overhead tokens",
            source=SCALING,
            here="teams without coordination are not recommended",
        ),
        Prior(
            finding=f"advice by these figures solves {loss.advice:.3f} less than the best shape on average, and one"
            f" agent everywhere {loss.alone:.3f} less; the difference comes from one benchmark of four, and may be"
            f" {loss.low:.3f} to {loss.high:.3f}",
            source=SCALING,
            here="it is not certain to be better than always using one agent",
        ),
        Prior(
            finding="one agent matches a team that uses the same number of tokens",
            source=EQUAL_TOKENS,
            here="a team is chosen only if its score is clearly above that of one agent",
        ),
    )


class KnownWork(Record, frozen=True):
    """The work as far as it is known; `divisible` is the share of its steps that can run in parallel."""

    steps: int
    longest_chain: int
    divisible: float
    average_tokens: int
    known: str


def plan_work(plan: Plan, *, usual_tokens: int | None = None) -> KnownWork:
    """The work of a plan: 0 of it can be divided if each step needs the previous one, 1 if no step needs another.

    `usual_tokens` is the size of a step if the plan estimates none.
    """
    many = len(plan.steps)
    graph = StepGraph.from_nodes([StepNode(step.id, step.needs) for step in plan.steps])
    chain = len(critical_path(graph.order, graph.needs)) if graph.order else many  # a cycle is reported elsewhere
    return KnownWork(
        steps=many,
        longest_chain=chain,
        divisible=round((many - chain) / (many - 1), 4) if many > 1 else 0.0,
        average_tokens=average_tokens(plan) or usual_tokens or USUAL_TOKENS,
        known="from the dependencies of the steps",
    )


def average_tokens(plan: Plan) -> int:
    """The average of the tokens that the steps of a plan are expected to take; 0 if none has an estimate."""
    return sum(step.execution_tokens for step in plan.steps) // len(plan.steps)


def assumed_work(steps: int, divisible: float, known: str, *, usual_tokens: int | None = None) -> KnownWork:
    """Work whose divisible share is given or assumed; its longest chain follows from that."""
    return KnownWork(
        steps=steps,
        longest_chain=round(steps - divisible * (steps - 1)),
        divisible=round(divisible, 4),
        average_tokens=usual_tokens or USUAL_TOKENS,
        known=known,
    )


class OwnRuns(NamedTuple):
    """The user's own runs in a topology: their number, their judged steps, and the profile fitted to them."""

    runs: int
    judged: int
    profile: TopologyProfile


NO_RUNS: Mapping[Topology, OwnRuns] = {}


class ShapeFigures(Record, frozen=True):
    """One topology on this work. `weight` is the weight of `own_runs` against published figures.

    `judged` counts the judged steps of these runs; without any, they say nothing about the pass rate. A topology that
    is not `within_gates` talks too much or takes too many tokens, and is chosen only if that is true of all.
    """

    topology: Topology
    score: float
    pass_rate: float
    total_tokens: int
    seconds: float
    own_runs: int
    weight: float
    judged: int
    within_gates: bool


class Confidence(Record, frozen=True):
    """How certain a decision is: its margin over the next topology, times the trust in the figures behind it.

    `published` is the trust in published figures on such work, and `weight` that of the user's judged runs against it.
    """

    level: Level
    value: float
    margin: float
    own_runs: int
    weight: float
    published: float


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen topology, and the figures behind it.

    `shapes` are those that were compared, best first. `one_agent` are the figures of one agent where it was not
    compared, because the steps name several members.
    """

    topology: Topology
    why: str
    work: KnownWork
    alone: float
    shapes: tuple[ShapeFigures, ...]
    one_agent: ShapeFigures | None
    confidence: Confidence
    profiles: TopologyProfiles

    @property
    def chosen(self) -> ShapeFigures:
        return next(one for one in self.shapes if one.topology == self.topology)

    @property
    def one_agent_is_better(self) -> bool:
        """Whether one agent would have been chosen if the steps did not name several members."""
        return self.one_agent is not None and self.one_agent.score > self.chosen.score - ABOUT_AS_WELL

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "topology": self.topology,
            "why": self.why,
            "work": self.work.to_json(),
            "shapes": [one.to_json() for one in self.shapes],
            "confidence": self.confidence.to_json(),
        }


def decide(
    work: KnownWork,
    settings: EvaluationSettings,
    *,
    members: int | None = None,
    skill: float | None = None,
    profiles: TopologyProfiles = TOPOLOGIES,
    own_runs: Mapping[Topology, OwnRuns] = NO_RUNS,
) -> Decision:
    """Decide among the topologies of the settings for a team of so many members.

    `skill` is the pass rate of one agent, if it is known; otherwise it is the model's.
    """
    used: TopologyProfiles = {
        name: _used_profile(profile, own_runs.get(name), settings, members) for name, profile in profiles.items()
    }
    case = _Case(work, settings, used, own_runs)
    alone = case.single_pass_rate(skill)
    found = [case.figures(topology, alone) for topology in dict.fromkeys(settings.topologies)]
    pool = [one for one in found if one.within_gates] or found
    shapes = _scored(found, pool, settings)
    single = None if "single" in settings.topologies else _scored([case.figures("single", alone)], pool, settings)[0]
    considered = [one for one in shapes if one.within_gates] or list(shapes)
    chosen, why = _choice(considered, shapes, settings)
    confidence = _confidence(considered, chosen, work)
    return Decision(chosen.topology, why, work, alone, shapes, single, confidence, used)


def own_weight(runs: int) -> float:
    """The weight of the user's own runs, from 0 to 1; it is one half at `PRIOR_RUNS` runs."""
    return runs / (runs + PRIOR_RUNS)


@dataclass(frozen=True, slots=True)
class _Case:
    """The work and what is known about topologies."""

    work: KnownWork
    settings: EvaluationSettings
    profiles: TopologyProfiles
    own_runs: Mapping[Topology, OwnRuns]

    def single_pass_rate(self, skill: float | None) -> float:
        modelled = evaluate_topology("single", self.settings, self.profiles).pass_rate
        return self._blend_pass_rate("single", modelled if skill is None else skill)

    def figures(self, topology: Topology, alone: float) -> ShapeFigures:
        """The figures of a topology, without its score."""
        profile, work, own = self.profiles[topology], self.work, self.own_runs.get(topology)
        found = evaluate_topology(topology, self.settings, self.profiles)
        rate = alone
        if topology != "single":
            rate = self._blend_pass_rate(topology, min(BEST_PASS_RATE, team_pass_rate(work.divisible, alone)))
        # No team is faster than its longest chain of steps, however many members it has.
        waiting = max(0.0, work.longest_chain - work.steps / found.parallelism)
        seconds = found.p95_latency_s + waiting * profile.seconds_per_task * WORKLOADS[self.settings.workload].latency
        runs = own.runs if own else 0
        return ShapeFigures(
            topology=topology,
            score=0.0,
            pass_rate=round(rate, 4),
            total_tokens=found.total_tokens,
            seconds=round(seconds, 2),
            own_runs=runs,
            weight=round(own_weight(runs), 4),
            judged=own.judged if own else 0,
            within_gates=found.gates.coordination_ratio and found.gates.budget,
        )

    def _blend_pass_rate(self, topology: Topology, prior: float) -> float:
        """The weighted mean of a prior pass rate and that of own runs, which count only if their steps were judged."""
        own = self.own_runs.get(topology)
        if own is None or not own.judged:
            return prior
        seen = evaluate_topology(topology, self.settings, {topology: own.profile}).pass_rate
        weight = own_weight(own.runs)
        return weight * seen + (1 - weight) * prior


def _used_profile(
    profile: TopologyProfile, own: OwnRuns | None, settings: EvaluationSettings, members: int | None
) -> TopologyProfile:
    """The weighted mean of a profile and that of own runs, except for the pass rate, with as many members as exist."""
    changed: dict[str, float] = {}
    if own is not None:
        weight = own_weight(own.runs)
        for name in TopologyProfile._fields:
            built, fitted = (cast("float | None", getattr(one, name)) for one in (profile, own.profile))
            if name != "pass_rate" and built is not None and fitted is not None and fitted != built:
                changed[name] = weight * fitted + (1 - weight) * built
    profile = profile._replace(**changed)
    if members is None or profile.participants is not None:
        return profile
    return profile._replace(participants=min(members, participants_of(profile, BUDGETS[settings.budget])))


def _scored(
    shapes: Sequence[ShapeFigures], pool: Sequence[ShapeFigures], settings: EvaluationSettings
) -> tuple[ShapeFigures, ...]:
    """The topologies with their scores relative to a pool, best first; at equal scores, the simpler one first."""
    most, slowest = max(one.total_tokens for one in pool), max(one.seconds for one in pool)
    weights = PREFERENCES[settings.recommendation]
    scored = [
        one.changed(
            score=score(weights, one.pass_rate, one.total_tokens, one.seconds, most_tokens=most, slowest=slowest)
        )
        for one in shapes
    ]
    return tuple(sorted(scored, key=lambda one: (not one.within_gates, -one.score)))


def _choice(
    considered: Sequence[ShapeFigures], shapes: Sequence[ShapeFigures], settings: EvaluationSettings
) -> tuple[ShapeFigures, str]:
    """The best topology considered, or one agent with about the same score; and the reason."""
    best = considered[0]
    alone = next((one for one in considered if one.topology == "single"), None)
    if alone is not None and best is not alone and best.score - alone.score < ABOUT_AS_WELL:
        return alone, f"{best.topology} is ahead by only {best.score - alone.score:.3f}, and one agent is simpler"
    among = " of those that keep to the gates of talk and tokens" if len(considered) < len(shapes) else ""
    return best, f"the best {settings.recommendation} score ({best.score:.2f}) with a {settings.budget} budget{among}"


def _confidence(shapes: Sequence[ShapeFigures], chosen: ShapeFigures, work: KnownWork) -> Confidence:
    other = next((one for one in shapes if one is not chosen), chosen)
    margin, weight = chosen.score - other.score, min(one.weight if one.judged else 0.0 for one in (chosen, other))
    published = trust_in_published(work.divisible)
    trust = (1 - weight) * published + weight
    value = round(min(1.0, max(0.0, margin) / CLEARLY_AHEAD) * trust, 2)
    return Confidence(
        level="high" if value >= HIGH else "medium" if value >= MEDIUM else "low",
        value=value,
        margin=round(margin, 4),
        own_runs=min(chosen.own_runs, other.own_runs),
        weight=weight,
        published=round(published, 2),
    )
