"""Which steps go side by side: batches of ready steps that own nothing in common.

The ready steps are looked at in topological order. One that wants a key which its batch has taken keeps its place, and
later ones may pass it. Steps that have been held up by the same keys stand in one line, of which only the first is
looked at: a key that thousands of steps want costs each batch one look, and a step moves to another line at most once
for each key it owns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush

from teamwright.planning.graph import Graph

Keys = frozenset[str]


def batches(graph: Graph, owns: Sequence[Collection[str]], width: int) -> Iterator[list[int]]:
    """Batches of at most `width` steps, as their places in `graph.order`, to which `owns` also goes by."""
    place = {id_: number for number, id_ in enumerate(graph.order)}
    dependents = [[place[one] for one in graph.dependents[id_]] for id_ in graph.order]
    open_needs = [len(graph.needs[id_]) for id_ in graph.order]
    ready = _Ready(owns)
    for step, count in enumerate(open_needs):
        if not count:
            ready.add(step)
    while batch := ready.take(width):
        yield batch
        for step in batch:
            for dependent in dependents[step]:
                open_needs[dependent] -= 1
                if not open_needs[dependent]:
                    ready.add(dependent)


@dataclass(slots=True)
class _Line:
    """Steps that all own these keys, the foremost first, and the one under which the line is listed, if it is."""

    keys: Keys
    steps: list[int] = field(default_factory=list[int])
    listed: int | None = None


class _Ready:
    """Steps that wait for nothing but keys.

    `_first` lists the steps that have never been held up, and the first of each line. A line is listed once: an older
    entry of it is passed over.
    """

    def __init__(self, owns: Sequence[Collection[str]]) -> None:
        self._owns = owns
        self._first: list[tuple[int, int]] = []
        self._lines: list[_Line] = [_Line(frozenset())]
        self._numbers: dict[Keys, int] = {}

    def add(self, step: int) -> None:
        """A step has become ready."""
        heappush(self._first, (step, 0))

    def take(self, width: int) -> list[int]:
        """The next batch; empty where nothing is ready."""
        batch: list[int] = []
        taken: set[str] = set()
        held: dict[int, None] = {}
        while len(batch) < width and (found := self._next(taken, held)):
            step, line = found
            keys = self._owns[step]
            if taken.isdisjoint(keys):
                batch.append(step)
                taken.update(keys)
            else:
                clash = next(key for key in keys if key in taken)
                held[self._moved(step, line.keys | {clash})] = None
        for number in held:
            self._list(number)
        return batch

    def _next(self, taken: Set[str], held: dict[int, None]) -> tuple[int, _Line] | None:
        """The foremost step whose line is not held up, taken out of it; lines that are held up are noted."""
        while self._first:
            step, number = heappop(self._first)
            line = self._lines[number]
            if not number:
                return step, line
            if line.listed != step:
                continue
            line.listed = None
            if taken.isdisjoint(line.keys):
                heappop(line.steps)
                if line.steps:
                    self._list(number)
                return step, line
            held[number] = None
        return None

    def _moved(self, step: int, keys: Keys) -> int:
        """Put a step into the line of these keys, and say which that is."""
        number = self._numbers.get(keys)
        if number is None:
            number = self._numbers[keys] = len(self._lines)
            self._lines.append(_Line(keys))
        heappush(self._lines[number].steps, step)
        return number

    def _list(self, number: int) -> None:
        """List a line under its first step, unless it is."""
        line = self._lines[number]
        if line.listed != line.steps[0]:
            line.listed = line.steps[0]
            heappush(self._first, (line.listed, number))
