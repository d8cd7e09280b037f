"""Finds cycles among agents and teams: members, helpers and fallbacks that lead back to where they began."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

MOST_SHOWN = 20
"""How many names of a cycle a message lists."""

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


def cycle_text(names: Sequence[str]) -> str:
    """A cycle as a path of names; a long one without its middle."""
    if len(names) <= MOST_SHOWN:
        return " → ".join(names)
    half = MOST_SHOWN // 2
    return " → ".join([*names[:half], f"… ({len(names) - MOST_SHOWN} more)", *names[-half:]])
