"""Critical-path length from each step to the end of the plan. Pure and linear."""

from __future__ import annotations

from collections.abc import Iterable

from teamwright.strategies.plan.graph import StepGraph
from teamwright.values.specs.plan import Step


def critical_path_lengths(graph: StepGraph, steps: Iterable[Step]) -> dict[str, int]:
    """Return for each step the length of the critical path from it to the end of the plan, itself included.

    Lengths are sums of token estimates; a step without an estimate counts as 1.
    """
    estimate = {step.id: step.execution_tokens or 1 for step in steps}
    length: dict[str, int] = {}
    for id_ in reversed(graph.order):
        length[id_] = estimate[id_] + max((length[dependent] for dependent in graph.dependents[id_]), default=0)
    return length
