"""How much work lies behind each step: the longest way from it to an end of the plan. Pure and linear."""

from __future__ import annotations

from collections.abc import Iterable

from teamwright.planning.graph import StepGraph
from teamwright.values.specs.plan import Step


def ways_behind(graph: StepGraph, steps: Iterable[Step]) -> dict[str, int]:
    """The estimates along the longest way from each step to an end, its own among them; no estimate counts as 1."""
    estimate = {step.id: step.execution_tokens or 1 for step in steps}
    way: dict[str, int] = {}
    for id_ in reversed(graph.order):
        way[id_] = estimate[id_] + max((way[dependent] for dependent in graph.dependents[id_]), default=0)
    return way
