"""The graph of agents, teams, helpers and fallbacks that name each other: its cycles, its depth, and their limits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

MOST_SHOWN = 20
"""How many names of a cycle a message lists."""
MOST_CYCLES = 100
"""How many cycles of a manifest are listed: each may be as long as the manifest."""
MOST_FALLBACKS = 100
"""The maximum length of a chain of fallbacks."""
MOST_NESTED = 100
"""The maximum nesting depth of teams: each level uses part of the interpreter's stack while it runs."""


K = TypeVar("K", bound=Hashable)


P = TypeVar("P")


def find_cycles(starts: Iterable[K], edges: Callable[[K], Iterable[tuple[K, P]]]) -> Iterator[tuple[list[K], P]]:
    """Walk depth first without recursion; yield each cycle as its nodes, the first one repeated, and its last label.

    `edges` returns the successors of a node, each with the label of its edge. Each node is visited once.
    """
    done: set[K] = set()
    for start in starts:
        path = {start: iter(edges(start))} if start not in done else {}
        while path:
            here = next(reversed(path))
            step = next(path[here], None)
            if step is None:
                done.add(here)
                del path[here]
                continue
            there, label = step
            if there in path:
                nodes = list(path)
                yield [*nodes[nodes.index(there) :], there], label
            elif there not in done:
                path[there] = iter(edges(there))


def depths(starts: Iterable[K], edges: Callable[[K], Iterable[K]], weight: Callable[[K], int]) -> dict[K, int]:
    """Return for each node the greatest sum of weights on a path from it, itself included; needs an acyclic graph."""
    found: dict[K, int] = {}
    for start in starts:
        stack = [start]
        while stack:
            node = stack[-1]
            if node not in found:
                if missing := [one for one in edges(node) if one not in found]:
                    stack.extend(missing)
                    continue
                found[node] = weight(node) + max((found[one] for one in edges(node)), default=0)
            stack.pop()
    return found


def cycle_text(names: Sequence[str]) -> str:
    """Format a cycle as a path of names; omit the middle of a long one."""
    if len(names) <= MOST_SHOWN:
        return " → ".join(names)
    half = MOST_SHOWN // 2
    return " → ".join([*names[:half], f"… ({len(names) - MOST_SHOWN} more)", *names[-half:]])
