"""Which steps go side by side: batches of ready steps that own nothing in common.

The ready steps are looked at in topological order. One that wants a key which its batch has taken keeps its place, and
later ones may pass it. So that no batch looks again at all who wait, those that were held up stand in a tree: under the
most wanted of their keys, below it under the next, no deeper than down to the key that held them up. A branch under a
taken key is passed over as a whole, and of every branch only the foremost step is looked at, until it is taken or moves
down. A step moves at most once for each key it owns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from heapq import heappop, heappush
from itertools import chain

from teamwright.planning.graph import StepGraph

NOBODY = 1 << 62
"""In place of the first step of a branch: nobody waits there."""
NOTHING: Set[int] = frozenset()

Keys = tuple[int, ...]
_Entry = tuple[int, int]
"""A branch as it is listed in the one above: its first step, and its last key."""


def batches(graph: StepGraph, owns: Sequence[Collection[str]], width: int) -> Iterator[list[int]]:
    """Batches of at most `width` steps, each as its place in `graph.order`, by which `owns` goes too."""
    place = {id_: number for number, id_ in enumerate(graph.order)}
    open_needs = [len(graph.needs[id_]) for id_ in graph.order]
    ready = _Ready(_contended(owns))
    for step, count in enumerate(open_needs):
        if not count:
            ready.add(step)
    while batch := ready.take(width):
        yield batch
        for step in batch:
            for id_ in graph.dependents[graph.order[step]]:
                dependent = place[id_]
                open_needs[dependent] = left = open_needs[dependent] - 1
                if not left:
                    ready.add(dependent)


def _contended(owns: Sequence[Collection[str]]) -> list[Keys]:
    """The keys of each step that others own too, as numbers: the most wanted key has the smallest and stands first."""
    wanted = Counter(chain.from_iterable(owns))
    shared = sorted((key for key, count in wanted.items() if count > 1), key=wanted.__getitem__, reverse=True)
    numbers = {key: number for number, key in enumerate(shared)}
    found: list[Keys] = []
    for keys in owns:
        own = [numbers[key] for key in keys if key in numbers]
        found.append(tuple(own) if len(own) < 2 else tuple(sorted(set(own))))
    return found


class _Branch:
    """Steps that own all keys of a path: `own` are those that were held up no further down, as a heap.

    `first` is the first step of all here, and `listed` the one by which the branch is found in the one above. `inner`
    lists the branches below as a heap; an entry that says another step than the branch is listed by is an old one.
    """

    __slots__ = ("below", "first", "inner", "keys", "listed", "own")

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.own: list[int] = []
        self.below: dict[int, _Branch] = {}
        self.inner: list[_Entry] = []
        self.first = self.listed = NOBODY

    def put(self, branch: _Branch) -> None:
        """List a branch below this one by its first step."""
        branch.listed = branch.first
        if branch.first != NOBODY:
            heappush(self.inner, (branch.first, branch.keys[-1]))

    def foremost(self, taken: Set[int], passed: list[tuple[_Branch, _Entry]]) -> int:
        """The first step here that may be free; branches under taken keys leave the list, and are told as passed."""
        inner, below = self.inner, self.below
        while inner:
            entry = inner[0]
            if below[entry[1]].listed != entry[0]:
                heappop(inner)
            elif entry[1] in taken:
                passed.append((self, heappop(inner)))
            else:
                break
        return self.at_best()

    def at_best(self) -> int:
        """A step before which there is none here."""
        if not self.inner:
            return self.own[0] if self.own else NOBODY
        first = self.inner[0][0]
        return self.own[0] if self.own and self.own[0] < first else first


class _Ready:
    """Steps that wait for nothing but keys; those that were never held up stand at the root of the tree.

    While a batch is made, the fringe is a heap of branches that may have the next step: none of a branch's steps comes
    before the one it stands by. What is opened or passed over for the batch is listed again when it is full.
    """

    def __init__(self, keys: Sequence[Keys]) -> None:
        self._keys = keys
        self._root = _Branch(())
        self._fringe: list[tuple[int, Keys, _Branch]] = []
        self._opened: list[tuple[_Branch, _Branch]] = []
        self._passed: list[tuple[_Branch, _Entry]] = []
        self._held: list[tuple[int, int]] = []

    def add(self, step: int) -> None:
        """A step has become ready."""
        heappush(self._root.own, step)

    def take(self, width: int) -> list[int]:
        """The next batch; empty where nothing is ready."""
        batch: list[int] = []
        taken: set[int] = set()
        fringe = self._fringe
        self._go_down(self._root, batch, taken, width)
        while fringe and len(batch) < width:
            _, keys, branch = heappop(fringe)
            if taken.isdisjoint(keys):
                self._go_down(branch, batch, taken, width)
        fringe.clear()
        if self._opened or self._passed:
            self._put_back()
        for step, depth in self._held:
            self._hold_up(step, depth)
        self._held.clear()
        return batch

    def _go_down(self, branch: _Branch, batch: list[int], taken: set[int], width: int) -> None:
        """Follow the foremost step, as long as no other branch has one before it."""
        fringe = self._fringe
        while len(batch) < width and (first := branch.foremost(taken, self._passed)) != NOBODY:
            if fringe and fringe[0][0] < first:
                heappush(fringe, (first, branch.keys, branch))
                return
            if branch.own and branch.own[0] == first:
                if self._try(heappop(branch.own), batch, taken) and branch.keys:
                    return
                continue
            inner = branch.below[heappop(branch.inner)[1]]
            inner.listed = NOBODY
            self._opened.append((branch, inner))
            if branch.inner or branch.own:
                heappush(fringe, (branch.at_best(), branch.keys, branch))
            branch = inner

    def _try(self, step: int, batch: list[int], taken: set[int]) -> bool:
        """Take a step into the batch, or hold it up at the first of its keys that is taken."""
        keys = self._keys[step]
        if taken.isdisjoint(keys):
            batch.append(step)
            taken.update(keys)
            return True
        self._held.append((step, next(depth for depth, key in enumerate(keys, start=1) if key in taken)))
        return False

    def _put_back(self) -> None:
        """List again what was passed over and what was opened, the innermost first, by who is first there now."""
        for above, entry in self._passed:
            heappush(above.inner, entry)
        self._passed.clear()
        for above, branch in reversed(self._opened):
            branch.first = branch.foremost(NOTHING, self._passed)
            above.put(branch)
        self._opened.clear()

    def _hold_up(self, step: int, depth: int) -> None:
        """Put a step under as many of its keys."""
        path = [self._root]
        for key in self._keys[step][:depth]:
            above = path[-1]
            if (branch := above.below.get(key)) is None:
                branch = above.below[key] = _Branch((*above.keys, key))
            path.append(branch)
        heappush(path[-1].own, step)
        for place in range(depth, 0, -1):
            branch = path[place]
            if step >= branch.first:
                return
            branch.first = step
            path[place - 1].put(branch)
