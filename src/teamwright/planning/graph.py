"""Which steps stand on which: what is wrong with that, a topological order, and circles found by name.

Pure functions over ids, linear in steps and needs. They know nothing of agents, members or time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from teamwright.errors import nearest
from teamwright.values.text.display import name_text

MOST_SUGGESTIONS = 20
"""How many unknown needs get a suggestion: each looks at all ids, and a file with more mistakes has one cause."""

MOST_SHOWN = 10
"""How many steps of a circle are named one by one."""


class StepNode(NamedTuple):
    """A step as far as its place goes: its id, and the ids of the steps it needs."""

    id: str
    needs: Sequence[str] = ()


class Fault(NamedTuple):
    """Something wrong with a graph: the words, the index of the step, and that of the need where it is one."""

    text: str
    step: int
    need: int | None = None


@dataclass(frozen=True, slots=True)
class StepGraph:
    """Steps by id, both ways round.

    `order` is topological: steps without needs in alphabetical order, then each as soon as the last of its needs has
    stood there, those that become free together in the order of their declaration. Steps in or behind a circle are
    not in it.
    """

    needs: Mapping[str, Sequence[str]]
    dependents: Mapping[str, Sequence[str]]
    order: Sequence[str]

    @classmethod
    def of(cls, nodes: Sequence[StepNode]) -> StepGraph:
        """The graph of these nodes; of two with one id the first counts, and needs that are not there do not."""
        declared: dict[str, Sequence[str]] = {}
        for node in nodes:
            declared.setdefault(node.id, node.needs)
        needs = {id_: _known(of, declared) for id_, of in declared.items()}
        dependents: dict[str, list[str]] = {id_: [] for id_ in needs}
        for id_, of in needs.items():
            for need in of:
                dependents[need].append(id_)
        return cls(needs, dependents, _order(needs, dependents))


def _known(needs: Sequence[str], declared: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The needs that are there, each once; nearly always that is all of them, as they stand."""
    once = dict.fromkeys(needs)
    if len(once) == len(needs) and once.keys() <= declared.keys():
        return needs
    return tuple(one for one in once if one in declared)


def faults(nodes: Sequence[StepNode]) -> list[Fault]:
    """Everything that keeps steps from being a graph that can be worked through."""
    first: dict[str, int] = {}
    found: list[Fault] = []
    for index, node in enumerate(nodes):
        if not node.id:
            found.append(Fault(f"step {index + 1} has no id", index))
        elif first.setdefault(node.id, index) != index:
            found.append(Fault(f"two steps are called {name_text(node.id)}; give one of them another id", index))
    found += _bad_needs(nodes, first)
    return found + [Fault(_circle(cycle), first[cycle[0]]) for cycle in cycles(StepGraph.of(nodes)) if len(cycle) > 1]


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
    """Circles, each as the steps in it, every one needing the next and the last the first; none is told twice.

    Where circles share steps, at least one of them is found.
    """
    placed = set(graph.order)
    left = {
        id_: next(need for need in of if need not in placed) for id_, of in graph.needs.items() if id_ not in placed
    }
    seen: set[str] = set()
    for start in left:
        path: dict[str, int] = {}
        step = start
        while step not in seen:
            seen.add(step)
            path[step] = len(path)
            step = left[step]
        if step in path:
            yield tuple(islice(path, path[step], None))


def _order(needs: Mapping[str, Sequence[str]], dependents: Mapping[str, Sequence[str]]) -> list[str]:
    waiting = {id_: len(of) for id_, of in needs.items()}
    order = sorted(id_ for id_, count in waiting.items() if not count)
    for id_ in order:  # grows while it is read
        for dependent in dependents[id_]:
            waiting[dependent] = left = waiting[dependent] - 1
            if not left:
                order.append(dependent)
    return order


def _circle(cycle: Sequence[str]) -> str:
    shown = [repr(step) for step in cycle[:MOST_SHOWN]]
    if len(cycle) > MOST_SHOWN:
        shown.append(f"… ({len(cycle)} steps)")
    told = " needs ".join([*shown, repr(cycle[0])])
    return f"steps need each other in a circle: {told}; take one of these needs away"
