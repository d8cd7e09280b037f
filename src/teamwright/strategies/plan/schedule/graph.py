"""The dependency graph of steps: its faults, a topological order, cycles, and critical-path lengths.

Pure functions over ids, linear in steps and needs. They know nothing of agents, members or time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from teamwright.errors import nearest
from teamwright.values.specs.plan import Step
from teamwright.values.text.display import name_text

MOST_SUGGESTIONS = 20
"""How many unknown needs get a suggestion: each compares all ids, and more mistakes usually have one cause."""

MOST_SHOWN = 10
"""How many steps of a cycle a message lists."""


class StepNode(NamedTuple):
    """A node of the graph: the id of a step, and the ids of the steps it needs."""

    id: str
    needs: Sequence[str] = ()


class Fault(NamedTuple):
    """A mistake in a graph: the message, the index of the step, and the index of the need if it concerns one."""

    text: str
    step: int
    need: int | None = None


@dataclass(frozen=True, slots=True)
class StepGraph:
    """Dependencies between steps, by id, in both directions.

    `order` is topological: steps without needs in alphabetical order, then each step right after the last of its needs,
    and steps that become ready together in the order of declaration. Steps in or after a cycle are omitted.
    """

    needs: Mapping[str, Sequence[str]]
    dependents: Mapping[str, Sequence[str]]
    order: Sequence[str]

    @classmethod
    def from_nodes(cls, nodes: Sequence[StepNode]) -> StepGraph:
        """Build the graph of these nodes; of two nodes with one id the first counts, and unknown needs are ignored."""
        declared: dict[str, Sequence[str]] = {}
        for node in nodes:
            declared.setdefault(node.id, node.needs)
        needs = {id_: _known(own, declared) for id_, own in declared.items()}
        dependents: dict[str, list[str]] = {id_: [] for id_ in needs}
        for id_, own in needs.items():
            for need in own:
                dependents[need].append(id_)
        return cls(needs, dependents, _order(needs, dependents))


def _known(needs: Sequence[str], declared: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Remove unknown and duplicate needs; nearly always there are none, and the sequence is returned unchanged."""
    once = dict.fromkeys(needs)
    if len(once) == len(needs) and once.keys() <= declared.keys():
        return needs
    return tuple(one for one in once if one in declared)


def graph_faults(nodes: Sequence[StepNode]) -> list[Fault]:
    """Return every mistake that keeps the steps from being an acyclic graph."""
    first: dict[str, int] = {}
    found: list[Fault] = []
    for index, node in enumerate(nodes):
        if not node.id:
            found.append(Fault(f"step {index + 1} has no id", index))
        elif first.setdefault(node.id, index) != index:
            found.append(Fault(f"two steps are called {name_text(node.id)}; give one of them another id", index))
    found += _bad_needs(nodes, first)
    return found + [
        Fault(_cycle_text(cycle), first[cycle[0]]) for cycle in cycles(StepGraph.from_nodes(nodes)) if len(cycle) > 1
    ]


def _bad_needs(nodes: Sequence[StepNode], known: Mapping[str, int]) -> Iterator[Fault]:
    suggestions = 0
    for index, node in enumerate(nodes):
        seen: set[str] = set()
        step = name_text(node.id)
        for place, need in enumerate(node.needs):
            if need == node.id:
                yield Fault(f"the step {step} needs itself", index, place)
            elif need not in known:
                suggestions += 1
                hint = f"; {nearest(need, known)}" if suggestions <= MOST_SUGGESTIONS else ""
                yield Fault(f"the step {step} needs {name_text(need)}, which is no step{hint}", index, place)
            elif need in seen:
                yield Fault(f"the step {step} needs {name_text(need)} twice", index, place)
            seen.add(need)


def cycles(graph: StepGraph) -> Iterator[Sequence[str]]:
    """Yield cycles, each once, as their steps: every step needs the next, and the last needs the first.

    If cycles share steps, at least one of them is found.
    """
    placed = set(graph.order)
    unplaced_need = {
        id_: next(need for need in own if need not in placed) for id_, own in graph.needs.items() if id_ not in placed
    }
    seen: set[str] = set()
    for start in unplaced_need:
        path: dict[str, int] = {}
        step = start
        while step not in seen:
            seen.add(step)
            path[step] = len(path)
            step = unplaced_need[step]
        if step in path:
            yield tuple(islice(path, path[step], None))


def _order(needs: Mapping[str, Sequence[str]], dependents: Mapping[str, Sequence[str]]) -> list[str]:
    unmet = {id_: len(own) for id_, own in needs.items()}
    order = sorted(id_ for id_, count in unmet.items() if not count)
    for id_ in order:  # grows during the iteration
        for dependent in dependents[id_]:
            unmet[dependent] = remaining = unmet[dependent] - 1
            if not remaining:
                order.append(dependent)
    return order


def _cycle_text(cycle: Sequence[str]) -> str:
    shown = [repr(step) for step in cycle[:MOST_SHOWN]]
    if len(cycle) > MOST_SHOWN:
        shown.append(f"… ({len(cycle)} steps)")
    path = " needs ".join([*shown, repr(cycle[0])])
    return f"steps need each other in a circle: {path}; remove one of these needs"


def critical_path_lengths(graph: StepGraph, steps: Iterable[Step]) -> dict[str, int]:
    """Return for each step the length of the critical path from it to the end of the plan, itself included.

    Lengths are sums of token estimates; a step without an estimate counts as 1.
    """
    estimate = {step.id: step.execution_tokens or 1 for step in steps}
    length: dict[str, int] = {}
    for id_ in reversed(graph.order):
        length[id_] = estimate[id_] + max((length[dependent] for dependent in graph.dependents[id_]), default=0)
    return length
