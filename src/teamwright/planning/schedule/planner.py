"""From a plan to a schedule: order, batches that own nothing twice, tokens allotted.

A pure function, linear in steps, needs and keys. A plan that can't be worked through is refused with every reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from teamwright.errors import InvalidName, PlanError
from teamwright.planning.graph import Fault, StepGraph, StepNode, faults
from teamwright.planning.schedule.allotment import allot
from teamwright.planning.schedule.batches import batches
from teamwright.planning.schedule.overlaps import contended
from teamwright.planning.schedule.schedule import Schedule, ScheduleBatch, locks_of
from teamwright.values.gc_pause import collection_paused
from teamwright.values.models import Value
from teamwright.values.names import NAME, suggest_name
from teamwright.values.owned_paths import WILD, key_problem, wildcards_problem
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.display import name_text


class PlannerSettings(Value):
    """What a schedule has to keep to."""

    max_parallel: int = Field(default=10, ge=1, description="how many steps are worked on at once")
    run_budget: int | None = Field(default=None, ge=0, description="tokens for the whole; without it nobody is cut")
    coordination_floor: int = Field(default=8, ge=0, description="tokens for coordination that every step should get")


USUAL = PlannerSettings.model_construct()


@collection_paused()
def make_schedule(plan: Plan, settings: PlannerSettings = USUAL) -> Schedule:
    """The schedule of a plan; raises `PlanError` with everything that is wrong with the plan."""
    graph = StepGraph.of(nodes_of(plan.steps))
    if found := _faults(plan.steps, graph):
        raise PlanError([fault.text for fault in found])
    budgets = allot(plan.steps, settings.run_budget, settings.coordination_floor)
    tokens = {budget.task: budget.tokens for budget in budgets}
    steps = {step.id: step for step in plan.steps}
    order = graph.order
    made: list[ScheduleBatch] = []
    for places in batches(graph, contended([steps[id_].owns for id_ in order]), settings.max_parallel):
        tasks = tuple([order[place] for place in places])
        locks = locks_of([steps[task] for task in tasks])
        made.append(
            ScheduleBatch(index=len(made), tasks=tasks, locks=locks, tokens=sum([tokens[task] for task in tasks]))
        )
    return Schedule(
        order=tuple(order), batches=tuple(made), budgets=budgets, total_tokens=sum(batch.tokens for batch in made)
    )


def plan_faults(steps: Sequence[Step]) -> list[Fault]:
    """Everything that keeps steps from being a plan: names, needs, circles and keys."""
    return _faults(steps, StepGraph.of(nodes_of(steps)))


def nodes_of(steps: Sequence[Step]) -> list[StepNode]:
    """The steps as far as their places go."""
    return [StepNode(step.id, step.needs) for step in steps]


def _faults(steps: Sequence[Step], graph: StepGraph) -> list[Fault]:
    found = [] if _is_sound(steps, graph) else faults(nodes_of(steps))
    for index, step in enumerate(steps):
        if step.id and not NAME.fullmatch(step.id):
            found.append(Fault(str(InvalidName("step", step.id, suggest_name(step.id))), index))
        for key in step.owns:
            if problem := key_problem(key):
                found.append(Fault(f"the step {name_text(step.id)} owns a key {problem}", index))
    return found or _wildcard_faults(steps)


def _wildcard_faults(steps: Sequence[Step]) -> list[Fault]:
    """Refuse wildcards that come so early in their keys that all of them would be compared with each other."""
    problem = wildcards_problem([key for step in steps for key in step.owns])
    if problem is None:
        return []
    first = next(index for index, step in enumerate(steps) if any(not WILD.isdisjoint(key) for key in step.owns))
    return [Fault(f"the steps {problem}", first)]


def _is_sound(steps: Sequence[Step], graph: StepGraph) -> bool:
    """Whether the graph holds every step and every need, and an order of them all: then nothing need be looked for."""
    edges = sum(map(len, graph.needs.values()))
    return len(graph.order) == len(steps) and edges == sum(len(step.needs) for step in steps) and "" not in graph.needs
