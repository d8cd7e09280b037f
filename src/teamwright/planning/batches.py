"""Which steps go side by side: batches of ready steps that own nothing in common.

The ready steps are looked at in topological order. One that wants a key which its batch has taken keeps its place, and
later ones may pass it. So that no batch looks again at all who wait, those that were held up by the same keys stand in
one line, and a line sleeps at a key that holds it up: while the key is taken nobody there is looked at, and when it is
free only the foremost line, until the key is taken or none is left. A step changes lines at most once for each key it
owns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush

from teamwright.planning.graph import Graph

Keys = tuple[str, ...]
ALONE = 0
"""In place of the number of a line: the step has never been held up."""


def batches(graph: Graph, owns: Sequence[Collection[str]], width: int) -> Iterator[list[int]]:
    """Batches of at most `width` steps, each as its place in `graph.order`, by which `owns` goes too."""
    place = {id_: number for number, id_ in enumerate(graph.order)}
    open_needs = [len(graph.needs[id_]) for id_ in graph.order]
    ready = _Ready(owns, (step for step, count in enumerate(open_needs) if not count))
    while batch := ready.take(width):
        yield batch
        for step in batch:
            for id_ in graph.dependents[graph.order[step]]:
                dependent = place[id_]
                open_needs[dependent] -= 1
                if not open_needs[dependent]:
                    ready.add(dependent)


@dataclass(slots=True)
class _Line:
    """Steps that all own these keys, as a heap; asleep at one of the keys, or awake and listed among the first."""

    keys: Keys
    steps: list[int] = field(default_factory=list[int])
    at: str = ""
    awake: bool = False


class _Ready:
    """Steps that wait for nothing but keys.

    Wherever a line sleeps, that key is taken, or a line that comes before it is awake for it.
    """

    def __init__(self, owns: Sequence[Collection[str]], steps: Iterable[int]) -> None:
        self._owns = owns
        self._first = [(step, ALONE) for step in steps]  # sorted, so a heap already
        self._lines = [_Line(())]
        self._numbers: dict[frozenset[str], int] = {}
        self._asleep: dict[str, list[tuple[int, int]]] = {}
        self._freed: Set[str] = set()

    def add(self, step: int) -> None:
        """A step has become ready."""
        heappush(self._first, (step, ALONE))

    def take(self, width: int) -> list[int]:
        """The next batch; empty where nothing is ready."""
        batch: list[int] = []
        taken: set[str] = set()
        for key in self._freed:
            self._wake(key)
        while self._first and len(batch) < width:
            step, number = heappop(self._first)
            if number == ALONE:
                self._try(step, (), batch, taken)
            else:
                line = self._lines[number]
                if line.awake and line.steps[0] == step:
                    self._look_at(number, line, batch, taken)
        self._freed = taken
        return batch

    def _try(self, step: int, line: Keys, batch: list[int], taken: set[str]) -> None:
        """Take a step into the batch, or put it into the line of those whom one key more holds up."""
        clash = _clash(self._owns[step], taken)
        if clash is None:
            batch.append(step)
            taken.update(self._owns[step])
        else:
            self._hold_up(step, (*line, clash), taken)

    def _look_at(self, number: int, line: _Line, batch: list[int], taken: set[str]) -> None:
        """Try the first of a line. If the key it was awake for is still free, the next line there has its turn."""
        was_at, line.awake = line.at, False
        clash = _clash(line.keys, taken)
        if clash is None:
            self._try(heappop(line.steps), line.keys, batch, taken)
        if line.steps:
            self._sleep(number, line, clash or was_at)
        if was_at not in taken:
            self._wake(was_at)

    def _hold_up(self, step: int, keys: Keys, taken: Set[str]) -> None:
        """Put a step into the line of these keys, of which the last is taken, and let the line sleep there."""
        number = self._numbers.setdefault(frozenset(keys), len(self._lines))
        if number == len(self._lines):
            self._lines.append(_Line(keys))
        line = self._lines[number]
        heappush(line.steps, step)
        was_awake, was_at = line.awake, line.at
        line.awake = False
        self._sleep(number, line, keys[-1])
        if was_awake and was_at not in taken:
            self._wake(was_at)

    def _sleep(self, number: int, line: _Line, key: str) -> None:
        line.at = key
        heappush(self._asleep.setdefault(key, []), (line.steps[0], number))

    def _wake(self, key: str) -> None:
        """Wake the foremost line that sleeps at a key; entries of lines that have moved since are passed over."""
        asleep = self._asleep.get(key)
        while asleep:
            step, number = heappop(asleep)
            line = self._lines[number]
            if line.at == key and not line.awake and line.steps and line.steps[0] == step:
                line.awake = True
                heappush(self._first, (step, number))
                return


def _clash(keys: Collection[str], taken: Set[str]) -> str | None:
    """The first of the keys that is taken."""
    return None if taken.isdisjoint(keys) else next(key for key in keys if key in taken)
