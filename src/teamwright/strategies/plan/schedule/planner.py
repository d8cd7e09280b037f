"""Schedules a plan: a topological order, batches without conflicting keys, and token allotments.

Pure, and linear in steps, needs and keys. An invalid plan is rejected with every mistake.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from teamwright.errors import InvalidName, PlanError
from teamwright.strategies.plan.graph import Fault, StepGraph, StepNode, graph_faults
from teamwright.strategies.plan.schedule.allotment import allot
from teamwright.strategies.plan.schedule.batches import batches
from teamwright.strategies.plan.schedule.overlaps import conflict_keys
from teamwright.strategies.plan.schedule.schedule import Schedule, ScheduleBatch, locks_of
from teamwright.values.gc_pause import collection_paused
from teamwright.values.models import Value
from teamwright.values.names import NAME, suggest_name
from teamwright.values.owned_paths import WILD, key_problem, wildcards_problem
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.display import name_text


class PlannerSettings(Value):
    """The limits of a schedule."""

    max_parallel: int = Field(default=10, ge=1, description="how many steps are worked on at once")
    run_budget: int | None = Field(default=None, ge=0, description="tokens for the whole; without it nobody is cut")
    coordination_floor: int = Field(default=8, ge=0, description="tokens for coordination that every step should get")


USUAL = PlannerSettings.model_construct()


@collection_paused()
def make_schedule(plan: Plan, settings: PlannerSettings = USUAL) -> Schedule:
    """Return the schedule of a plan; raises `PlanError` with every mistake in the plan."""
    graph = StepGraph.from_nodes(nodes_of(plan.steps))
    if faults_found := _faults(plan.steps, graph):
        raise PlanError([fault.text for fault in faults_found])
    budgets = allot(plan.steps, settings.run_budget, settings.coordination_floor)
    tokens = {budget.task: budget.tokens for budget in budgets}
    steps = {step.id: step for step in plan.steps}
    order = graph.order
    found: list[ScheduleBatch] = []
    for indexes in batches(graph, conflict_keys([steps[id_].owns for id_ in order]), settings.max_parallel):
        tasks = tuple([order[index] for index in indexes])
        locks = locks_of([steps[task] for task in tasks])
        found.append(
            ScheduleBatch(index=len(found), tasks=tasks, locks=locks, tokens=sum([tokens[task] for task in tasks]))
        )
    return Schedule(
        order=tuple(order), batches=tuple(found), budgets=budgets, total_tokens=sum(batch.tokens for batch in found)
    )


def plan_faults(steps: Sequence[Step]) -> list[Fault]:
    """Return every mistake in the steps of a plan: names, needs, cycles and keys."""
    return _faults(steps, StepGraph.from_nodes(nodes_of(steps)))


def nodes_of(steps: Sequence[Step]) -> list[StepNode]:
    """The steps as nodes of a graph."""
    return [StepNode(step.id, step.needs) for step in steps]


def _faults(steps: Sequence[Step], graph: StepGraph) -> list[Fault]:
    found = [] if _is_sound(steps, graph) else graph_faults(nodes_of(steps))
    for index, step in enumerate(steps):
        if step.id and not NAME.fullmatch(step.id):
            found.append(Fault(str(InvalidName("step", step.id, suggest_name(step.id))), index))
        for key in step.owns:
            if problem := key_problem(key):
                found.append(Fault(f"the step {name_text(step.id)} owns a key {problem}", index))
    return found or _wildcard_faults(steps)


def _wildcard_faults(steps: Sequence[Step]) -> list[Fault]:
    """Reject wildcards so early in their keys that every pair of keys would have to be compared."""
    problem = wildcards_problem([key for step in steps for key in step.owns])
    if problem is None:
        return []
    first = next(index for index, step in enumerate(steps) if any(not WILD.isdisjoint(key) for key in step.owns))
    return [Fault(f"the steps {problem}", first)]


def _is_sound(steps: Sequence[Step], graph: StepGraph) -> bool:
    """Whether the graph has every step and every need and is acyclic, so that no mistakes need to be searched for."""
    edges = sum(map(len, graph.needs.values()))
    return len(graph.order) == len(steps) and edges == sum(len(step.needs) for step in steps) and "" not in graph.needs
