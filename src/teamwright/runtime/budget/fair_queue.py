"""A queue in which branches take turns, at every level, so that a branch with many calls holds up no other.

Pure: the same items in the same order come out in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Queued items, each under a path of branches: the run, a branch of it, a branch of that one.

    Invariant: at every level the branches with queued items take turns, one item each a round, in the order in which
    they joined; within one branch items come out first in, first out.
    """

    __slots__ = ("_children", "_items", "_turns")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._children: dict[Hashable, FairQueue[T]] = {}
        self._turns: deque[Hashable | None] = deque()
        """Branches in the order of their turns, by name; `None` is the turn of the items queued at this level."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __iter__(self) -> Iterator[T]:
        """Yield all items, branch by branch."""
        yield from self._items
        for branch in self._children.values():
            yield from branch

    def push(self, path: Sequence[Hashable], item: T, depth: int = 0) -> None:
        if depth == len(path):
            if not self._items:
                self._turns.append(None)
            self._items.append(item)
            return
        name = path[depth]
        if name not in self._children:
            self._children[name] = FairQueue()
            self._turns.append(name)
        self._children[name].push(path, item, depth + 1)

    def peek(self) -> T:
        """Return the next item without removing it; the queue must not be empty."""
        name = self._turns[0]
        return self._items[0] if name is None else self._children[name].peek()

    def pop(self) -> T:
        """Remove and return the next item."""
        name = self._turns.popleft()
        if name is None:
            item, remaining = self._items.popleft(), bool(self._items)
        else:
            item, remaining = self._children[name].pop(), bool(self._children[name])
            if not remaining:
                del self._children[name]
        if remaining:
            self._turns.append(name)
        return item

    def remove(self, path: Sequence[Hashable], item: T, depth: int = 0) -> None:
        """Remove an item that no longer waits; it must be in the queue."""
        name = None if depth == len(path) else path[depth]
        if name is None:
            self._items.remove(item)
            remaining = bool(self._items)
        else:
            self._children[name].remove(path, item, depth + 1)
            remaining = bool(self._children[name])
            if not remaining:
                del self._children[name]
        if not remaining:
            self._turns.remove(name)
