"""What is known about work before it runs: how many steps it has, and how much of it can be divided."""

from __future__ import annotations

from teamwright.strategies.plan.graph import StepGraph, StepNode
from teamwright.strategies.plan.schedule.diagnostics import critical_path
from teamwright.values.models import Record
from teamwright.values.specs.plan import Plan

USUAL_TOKENS = 1400
"""The tokens of a step, if nothing is known about them."""


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
