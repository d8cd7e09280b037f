"""Finds cycles and deep nesting among agents and teams, by their members, helpers and fallbacks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

MOST_SHOWN = 20
"""How many names of a cycle a message lists."""

MOST_CYCLES = 100
"""How many cycles of a manifest are listed: each is a path through as much as all of it."""
MOST_FALLBACKS = 100
"""How many agents may stand in for each other in a line."""
MOST_NESTED = 100
"""How deep teams may lie within each other: each level takes a part of the interpreter's stack while it runs."""

K = TypeVar("K", bound=Hashable)
P = TypeVar("P")


def find_cycles(starts: Iterable[K], edges: Callable[[K], Iterable[tuple[K, P]]]) -> Iterator[tuple[list[K], P]]:
    """Walk depth first without recursion and yield each cycle: its nodes, the first one again last, and the edge back.

    `edges` gives the successors of a node, each with what belongs to that edge. Each node is walked once.
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
    """For each node the greatest sum of weights on a path from it, itself included; there must be no cycles."""
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
    """A cycle as a path of names; a long one without its middle."""
    if len(names) <= MOST_SHOWN:
        return " → ".join(names)
    half = MOST_SHOWN // 2
    return " → ".join([*names[:half], f"… ({len(names) - MOST_SHOWN} more)", *names[-half:]])
