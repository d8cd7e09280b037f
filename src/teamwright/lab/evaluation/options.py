"""The options of the lab, under the names that the command line, the JSON and the functions share.

An invalid value is rejected with the expected values or range; each mistake is one line of the message.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import JsonValue, ValidationError

from teamwright.errors import UsageError
from teamwright.lab.topology.model import EvaluationSettings, Gates
from teamwright.lab.topology.profiles import (
    TOPOLOGY_NAMES,
    BudgetLevel,
    Degradation,
    Preference,
    Protocol,
    Workload,
)
from teamwright.values.names import SHORT_NAMES

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
