"""The options of the lab and the dimensions of a sweep, as commands, JSON and functions name them.

A dimension is written `low,high`, as a range such as `8:64:8` including its end, or `all`. Every value is checked
before anything is computed, and rejected with the expected values or range; each mistake is one line of the message.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Literal, TypedDict, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import JsonValue, ValidationError

from teamwright.errors import UsageError
from teamwright.lab.topology_model import (
    TOPOLOGY_NAMES,
    BudgetLevel,
    Degradation,
    EvaluationSettings,
    Gates,
    Preference,
    Protocol,
    Topology,
    Workload,
    plain_topology,
)
from teamwright.values.names import SHORT_NAMES
from teamwright.values.text.display import number_text

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


BUDGET_LEVELS: tuple[BudgetLevel, ...] = get_args(BudgetLevel)

FIELDS: Mapping[str, str] = {
    "budget": "budget",
    "tasks": "tasks",
    "avg_task_tokens": "average_tokens",
    "coordination_rounds": "rounds",
    "topologies": "topologies",
    "workload": "workload",
    "protocol": "protocol",
    "degradation": "degradation",
    "recommend": "recommendation",
    "max_coordination_ratio": "max_coordination_ratio",
    "min_pass_rate": "min_pass_rate",
    "max_p95_latency": "max_p95_latency_s",
}
"""The field of each option, in the settings of an evaluation or in their gates."""


class Options(TypedDict, total=False):
    """The options that may be set; the others have their default values."""

    budget: BudgetLevel
    tasks: int
    avg_task_tokens: int
    coordination_rounds: int
    topologies: Sequence[str]
    workload: Workload
    protocol: Protocol
    degradation: Degradation
    recommend: Preference
    max_coordination_ratio: float
    min_pass_rate: float
    max_p95_latency: float


def settings_from(options: Options) -> EvaluationSettings:
    """Return the settings that the options describe."""
    given: dict[str, object] = {}
    gates: dict[str, object] = {}
    for name, value in options.items():
        if name not in FIELDS:
            raise UsageError(f"There is no option {name!r} of the lab; known are {', '.join(FIELDS)}.")
        field = FIELDS[name]
        (gates if field in Gates.model_fields else given)[field] = value
    try:
        return EvaluationSettings.model_validate({**given, "gates": gates})
    except ValidationError as error:
        raise UsageError.several(_problems(error)) from error


def inputs_of(settings: EvaluationSettings) -> dict[str, JsonValue]:
    """The settings under the names of the options."""
    fields = {**settings.model_dump(mode="json"), **settings.gates.model_dump(mode="json")}
    found: dict[str, JsonValue] = {name: fields[field] for name, field in FIELDS.items()}
    found["topologies"] = list(dict.fromkeys(settings.topologies))
    return found


def expected(name: str) -> str:
    """The expected values of an option: a list, or a range."""
    if name == "topologies":
        return f"{_either(TOPOLOGY_NAMES)} (or {', '.join(SHORT_NAMES)})"
    field = _field(name)
    if get_origin(field.annotation) is Literal:
        return _either(get_args(field.annotation))
    within = _exclusive(name)
    if within is None:
        low, high = bounds(name)
        within = f"of at least {low}" if math.isinf(high) else f"from {low:,} to {high:,}".replace(",", " ")
    return f"a {'whole ' if field.annotation is int else ''}number {within}"


def _exclusive(name: str) -> str | None:
    """The range of a number with exclusive bounds, as text; None if its bounds are inclusive."""
    metadata = _field(name).metadata
    above = next((one.gt for one in metadata if isinstance(one, Gt)), None)
    below = next((one.lt for one in metadata if isinstance(one, Lt)), None)
    if above is None:
        return None
    return f"above {above}" if below is None else f"above {above} and below {below}"


def bounds(name: str) -> tuple[float, float]:
    """The minimum and the maximum of a number with inclusive bounds."""
    metadata = _field(name).metadata
    low = next((one.ge for one in metadata if isinstance(one, Ge)), -math.inf)
    high = next((one.le for one in metadata if isinstance(one, Le)), math.inf)
    return cast("float", low), cast("float", high)


def refusal(name: str, value: object) -> str:
    """The message for an invalid value: what was expected, and a suggestion for a typo."""
    known: Sequence[object] = TOPOLOGY_NAMES if name == "topologies" else get_args(_field(name).annotation)
    close = (
        difflib.get_close_matches(value, [str(one) for one in known], n=1, cutoff=0.7) if isinstance(value, str) else []
    )
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"{name} is {value!r}, expected {expected(name)}{hint}"


def _problems(error: ValidationError) -> Iterator[str]:
    """Each mistake once: an unknown topology is reported by its name, without its index in the list."""
    names = {field: name for name, field in FIELDS.items()}
    flaws = error.errors()
    within = any(isinstance(flaw["loc"][-1], int) for flaw in flaws)
    for flaw in flaws:
        if within and flaw["loc"] == ("topologies",):
            continue
        field = [str(part) for part in flaw["loc"] if not isinstance(part, int)][-1]
        yield refusal(names[field], flaw["input"])


def _field(name: str) -> FieldInfo:
    field = FIELDS[name]
    return (Gates if field in Gates.model_fields else EvaluationSettings).model_fields[field]


def _either(values: Sequence[str]) -> str:
    return f"{', '.join(values[:-1])} or {values[-1]}"


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
        return tuple(len(self.values(name)) for name in AXES)

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    @property
    def swept(self) -> tuple[str, ...]:
        """The dimensions with more than one value."""
        return tuple(name for name in AXES if len(self.values(name)) > 1)

    def values(self, name: str) -> tuple[str | int, ...]:
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
