"""A queue in which branches take turns, so that one with many calls can't starve another.

Pure and deterministic: the order in which things come out depends only on the order in which they came in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Rounds(Generic[T]):
    """Things that wait, each under a path of branches: the run, a branch of it, a branch of that one.

    Invariant: at every level those who have something waiting take turns, each one thing a round, whoever came first
    before the others; within one branch it is first come, first served.
    """

    __slots__ = ("_inner", "_own", "_turns")

    def __init__(self) -> None:
        self._own: deque[T] = deque()
        self._inner: dict[Hashable, Rounds[T]] = {}
        self._turns: deque[Hashable | None] = deque()
        """Who is next, by its name in the path; `None` stands for what waits here and in no branch."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def push(self, path: Sequence[Hashable], item: T, depth: int = 0) -> None:
        """Let something wait at a path."""
        if depth == len(path):
            if not self._own:
                self._turns.append(None)
            self._own.append(item)
            return
        name = path[depth]
        if name not in self._inner:
            self._inner[name] = Rounds()
            self._turns.append(name)
        self._inner[name].push(path, item, depth + 1)

    def first(self) -> T:
        """Whose turn it is; there must be somebody."""
        name = self._turns[0]
        return self._own[0] if name is None else self._inner[name].first()

    def pop(self) -> T:
        """Take out whose turn it is."""
        name = self._turns.popleft()
        if name is None:
            item, left = self._own.popleft(), bool(self._own)
        else:
            item, left = self._inner[name].pop(), bool(self._inner[name])
            if not left:
                del self._inner[name]
        if left:
            self._turns.append(name)
        return item

    def remove(self, path: Sequence[Hashable], item: T, depth: int = 0) -> None:
        """Take out what no longer waits; it must be there."""
        name = None if depth == len(path) else path[depth]
        if name is None:
            self._own.remove(item)
            left = bool(self._own)
        else:
            self._inner[name].remove(path, item, depth + 1)
            left = bool(self._inner[name])
            if not left:
                del self._inner[name]
        if not left:
            self._turns.remove(name)
