"""Recommends a topology for a team's work, perhaps a single agent, with the numbers behind it and a confidence.

The recommendation is the decision that `run --topology auto` makes for the same team.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from teamwright.agents.agent import Agent
from teamwright.errors import UsageError
from teamwright.lab.auto_topology import declared_lead, declared_skill, plan_in, possible_topologies, settings_of
from teamwright.lab.calibration import Calibration
from teamwright.lab.simulation.trials import ONE_AFTER_ANOTHER, spec_of
from teamwright.lab.topology_decision import (
    PRIOR_RUNS,
    Confidence,
    Decision,
    KnownWork,
    Prior,
    ShapeFigures,
    assumed_work,
    decide,
    plan_work,
    priors,
    validation_reason,
)
from teamwright.lab.topology_model import BudgetLevel, EvaluationSettings, Preference, Topology, Workload
from teamwright.teams.team import Team, require_team

UNKNOWN_SHARE = 0.5
DIVIDED = {"fan_out": 1.0, **dict.fromkeys(ONE_AFTER_ANOTHER, 0.0)}
"""The share of a strategy's work that can run in parallel, whatever its parts are."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Which topology to use, and why."""

    team: str
    task: str
    strategy: str
    decision: Decision
    reasons: tuple[str, ...]
    priors: tuple[Prior, ...]

    @property
    def recommended(self) -> Topology:
        return self.decision.topology

    @property
    def confidence(self) -> Confidence:
        return self.decision.confidence

    @property
    def work(self) -> KnownWork:
        """The work as far as it is known."""
        return self.decision.work

    @property
    def shapes(self) -> tuple[ShapeFigures, ...]:
        """The topologies for which the team has the members, best first."""
        return self.decision.shapes

    @property
    def sentence(self) -> str:
        what = "one agent" if self.recommended == "single" else f"a {self.recommended}"
        how = f"({self.confidence.level} confidence, {self.confidence.value:.2f})"
        if len(self.shapes) == 1:
            how = "because no other topology is possible with these members and steps"
        but = " One agent would suit it better, but the steps name several members."
        return f"Use {what} for this work {how}.{but if self.decision.one_agent_is_better else ''}"

    def to_json(self) -> dict[str, JsonValue]:
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

    Only topologies for which the team has the members are compared. The default of `budget` is the level that the team
    declares for its handoffs, else medium.
    """
    if divisible is not None and not 0 <= divisible <= 1:
        raise UsageError(f"divisible is {divisible:g}, expected a number from 0 to 1.")
    made = require_team(team)
    spec, options = spec_of(made), made.settings.options
    work = work_of(made, divisible, profile)
    possible = possible_topologies(
        plan_in(made.strategy, options), [one.name for one in made.members], declared_lead(options)
    )
    usual = EvaluationSettings(
        tasks=work.steps,
        average_tokens=work.average_tokens,
        workload=workload,
        recommendation=recommend,
        topologies=possible,
    )
    decision = decide(
        work,
        settings_of(spec, usual, budget),
        members=len(made.members),
        skill=declared_skill(made.declared.manifest, spec) if made.declared else None,
        own_runs=profile.own_runs if profile else {},
    )
    reasons, found = _reasons(decision), priors(work.divisible, decision.alone)
    return Advice(made.name, task, made.strategy.name, decision, reasons, found)


def work_of(team: Team, divisible: float | None = None, profile: Calibration | None = None) -> KnownWork:
    """Estimate the work of a team, from its steps if they are known in advance."""
    plan = plan_in(team.strategy, team.settings.options)
    usual = profile.average_tokens if profile else None
    work = None if plan is None else plan_work(plan, usual_tokens=usual)
    if work is not None and divisible is None:
        return work
    steps, tokens = (work.steps, work.average_tokens) if work else (max(1, len(team.members)), usual)
    name = team.strategy.name
    if divisible is not None:
        share, known = divisible, "as given"
    elif name in DIVIDED:
        share, known = DIVIDED[name], f"from the strategy {name!r}"
    else:
        share, known = UNKNOWN_SHARE, "not known in advance: set it with --divisible"
    return assumed_work(steps, share, known, usual_tokens=tokens)


def _reasons(decision: Decision) -> tuple[str, ...]:
    work, chosen, shapes = decision.work, decision.chosen, decision.shapes
    chain = f"{work.steps} steps, the longest chain {work.longest_chain}"
    reasons = [
        f"{chain}: {work.divisible:.0%} can be divided ({work.known})",
        decision.why,
        "; ".join(
            f"{one.topology}: {_figures(one)}" for one in (chosen, *(other for other in shapes if other is not chosen))
        ),
    ]
    over = ", ".join(one.topology for one in shapes if not one.within_gates)
    if over and any(one.within_gates for one in shapes):
        reasons.append(f"not considered, for too much talk or too many tokens: {over}")
    if decision.one_agent is not None:
        reasons.append(f"the steps name several members; one agent for all of them: {_figures(decision.one_agent)}")
    return (*reasons, _own_runs_reason(shapes), validation_reason(work.divisible))


def _own_runs_reason(shapes: Sequence[ShapeFigures]) -> str:
    """How much the user's own runs count."""
    seen = [one for one in shapes if one.own_runs]
    if not seen:
        return "there are no runs of yours: the advice uses only the model and published figures"
    runs = ", ".join(f"{one.topology} {one.own_runs}" for one in seen)
    weights = f"n of your own runs ({runs}) weigh n / (n + {PRIOR_RUNS}), published figures the rest"
    judged = ", ".join(f"{one.topology} {one.judged}" for one in seen if one.judged)
    weights = f"{weights}; judged steps ({judged}) give their pass rates" if judged else weights
    unjudged = ", ".join(one.topology for one in seen if not one.judged)
    if not unjudged:
        return weights
    return f"{weights}; runs of {unjudged} count only for tokens and time, because none of their steps was judged"


def _figures(shape: ShapeFigures) -> str:
    return f"{shape.pass_rate:.0%} right, {shape.total_tokens} tokens, {shape.seconds:g} s"
