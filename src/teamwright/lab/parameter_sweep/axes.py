"""The dimensions of a sweep, and the syntax of their values: `low,high`, a range such as `8:64:8`, or `all`.

A range includes its end. Every value is checked before anything is computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import TypedDict, cast, get_args

from teamwright.errors import UsageError
from teamwright.lab.evaluation.options import BUDGET_LEVELS, bounds, expected, inputs_of, refusal
from teamwright.lab.topology.model import EvaluationSettings
from teamwright.lab.topology.profiles import (
    TOPOLOGY_NAMES,
    BudgetLevel,
    Degradation,
    Protocol,
    Topology,
    Workload,
    plain_topology,
)
from teamwright.values.text.display import number_text

MOST_CELLS = 200_000
RANGE = re.compile(r"(-?\d+):(-?\d+)(?::(\d+))?")

Words = str | Iterable[str]
Numbers = int | str | Iterable[int]


class Dimensions(TypedDict, total=False):
    """The dimensions to sweep: a value, several, or a text such as `all`, `low,high` or `8:64:8`."""

    budgets: Words
    workloads: Words
    protocols: Words
    degradations: Words
    tasks: Numbers
    avg_task_tokens: Numbers
    coordination_rounds: Numbers
    topologies: Words


@dataclass(frozen=True, slots=True)
class Axes:
    """The values of every dimension, in the order of the cells: topologies change fastest."""

    budget: tuple[BudgetLevel, ...]
    workload: tuple[Workload, ...]
    protocol: tuple[Protocol, ...]
    degradation: tuple[Degradation, ...]
    tasks: tuple[int, ...]
    avg_task_tokens: tuple[int, ...]
    coordination_rounds: tuple[int, ...]
    topology: tuple[Topology, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each dimension has."""
        return tuple(len(self.values(name)) for name in AXES)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.shape)

    @property
    def swept(self) -> tuple[str, ...]:
        """The dimensions with more than one value."""
        return tuple(name for name in AXES if len(self.values(name)) > 1)

    def values(self, name: str) -> tuple[str | int, ...]:
        """The values of one dimension."""
        return cast("tuple[str | int, ...]", getattr(self, name))


AXES: tuple[str, ...] = tuple(Axes.__dataclass_fields__)
OPTIONS: Mapping[str, str] = {
    "budget": "budgets",
    "workload": "workloads",
    "protocol": "protocols",
    "degradation": "degradations",
    "tasks": "tasks",
    "avg_task_tokens": "avg_task_tokens",
    "coordination_rounds": "coordination_rounds",
    "topology": "topologies",
}
"""The option that sets each dimension."""
_WORDS: Mapping[str, tuple[str, ...]] = {
    "budget": BUDGET_LEVELS,
    "workload": get_args(Workload),
    "protocol": get_args(Protocol),
    "degradation": get_args(Degradation),
    "topology": TOPOLOGY_NAMES,
}


def axes_from(dimensions: Dimensions) -> Axes:
    """Return the dimensions of a sweep with every value checked and duplicates removed."""
    names = {option: name for name, option in OPTIONS.items()}
    usual = inputs_of(EvaluationSettings())
    found: dict[str, tuple[str | int, ...]] = {
        name: (cast("str | int", usual[name]),) for name in AXES if name in usual
    }
    found["topology"] = TOPOLOGY_NAMES
    for option, given in dimensions.items():
        if option not in names:
            raise UsageError(f"There is no dimension {option!r}; known are {', '.join(names)}.")
        name = names[option]
        values = _words(name, cast("Words", given)) if name in _WORDS else _numbers(name, cast("Numbers", given))
        found[name] = tuple(dict.fromkeys(values))
    axes = Axes(**found)  # pyright: ignore[reportArgumentType] - each value was checked against its dimension
    if axes.cells > MOST_CELLS:
        raise UsageError(
            f"A sweep of {number_text(axes.cells)} cells is too large, expected at most {number_text(MOST_CELLS)}:"
            f" use fewer values of {', '.join(axes.swept)}."
        )
    return axes


def _words(name: str, given: Words) -> tuple[str, ...]:
    known = _WORDS[name]
    names = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
    if names == ["all"]:
        return known
    read = tuple(cast("str", plain_topology(one)) if name == "topology" else one for one in names)
    wrong = [one for one in read if one not in known]
    if wrong or not read:
        shown = wrong[0] if wrong else ""
        raise UsageError(refusal("topologies" if name == "topology" else name, shown))
    return read


def _numbers(name: str, given: Numbers) -> tuple[int, ...]:
    if isinstance(given, int):
        read = [given]
    elif isinstance(given, str):
        read = [value for part in given.split(",") for value in _range(name, part.strip())]
    else:
        read = list(given)
    low, high = bounds(name)
    wrong = [one for one in read if isinstance(one, bool) or not hasattr(one, "__index__") or not low <= one <= high]
    if wrong or not read:
        raise UsageError(refusal(name, wrong[0] if wrong else given))
    return tuple(map(index, read))


def _range(name: str, part: str) -> Iterable[int]:
    """One number, or all numbers of a range; a range that is too long is rejected before it is built."""
    if re.fullmatch(r"-?\d+", part):
        return [int(part)]
    found = RANGE.fullmatch(part)
    step = int(found[3] or 1) if found else 0
    if found is None or step < 1 or int(found[1]) > int(found[2]):
        raise UsageError(
            f"{name} is {part!r}, expected {expected(name)}, several as in 8,16,32, or a range as in 8:64:8."
        )
    values = range(int(found[1]), int(found[2]) + 1, step)
    low, high = bounds(name)
    if not values or values[0] < low or values[-1] > high:
        raise UsageError(refusal(name, part))
    if len(values) > MOST_CELLS:
        many, most = number_text(len(values)), number_text(MOST_CELLS)
        raise UsageError(f"{name} {part!r} has {many} values, expected at most {most}.")
    return values
