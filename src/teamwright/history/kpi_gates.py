"""KPI gates: bounds on the KPIs of a run. A gate checks the rounded figure, as it is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Literal, cast

from pydantic import JsonValue

from teamwright.errors import UnknownName, UsageError
from teamwright.history.kpis import FIGURES, Kpis
from teamwright.values.models import Record

Bound = Literal["<=", ">="]

DEFAULT = "default"
ON_PASSED = frozenset(("pass_rate", "defect_escape", "passed", "throughput"))
"""The figures that follow from the steps that passed."""
_GATE = re.compile(r"\s*([A-Za-z0-9_]+)\s*(<=|>=)\s*([0-9.eE+_-]+)\s*")


class KpiGate(Record, frozen=True):
    """A bound on one figure."""

    figure: str
    bound: Bound
    limit: float

    def __str__(self) -> str:
        return f"{self.figure}{self.bound}{self.limit:.10g}"

    def holds(self, value: float | None) -> bool:
        """Whether a value is within the bound; an unknown value is not."""
        if value is None:
            return False
        return value <= self.limit if self.bound == "<=" else value >= self.limit


DEFAULTS = (
    KpiGate(figure="coordination_ratio", bound="<=", limit=0.20),
    KpiGate(figure="pass_rate", bound=">=", limit=0.80),
)


class GateResult(Record, frozen=True):
    """A gate, the value it was checked against, and whether that passed.

    `assumed` counts the steps behind the value without a review, so that they are only assumed to have passed.
    """

    gate: KpiGate
    value: float | None
    passed: bool
    assumed: int = 0

    def to_json(self) -> dict[str, JsonValue]:
        """JSON data, with the gate as its expression."""
        found: dict[str, JsonValue] = {"gate": str(self.gate), "figure": self.gate.figure}
        return found | {"value": self.value, "passed": self.passed, "assumed": self.assumed}

    @property
    def words(self) -> str:
        """The gate, the value and the bound as a sentence."""
        shown = "unknown, since the run has no data for it" if self.value is None else f"{self.value:.10g}"
        shown += f" ({self.assumed} assumed)" if self.assumed else ""
        bound = "may be at most" if self.gate.bound == "<=" else "has to be at least"
        return f"{self.gate}: {self.gate.figure} is {shown}, and {bound} {self.gate.limit:.10g}"


def read_gates(texts: Iterable[str]) -> tuple[KpiGate, ...]:
    """Parse gates such as `pass_rate>=0.8`; `default` means the two default gates."""
    found: list[KpiGate] = []
    for text in texts:
        found.extend(DEFAULTS if text.strip() == DEFAULT else [_read(text)])
    return tuple(dict.fromkeys(found))


def check_gates(gates: Sequence[KpiGate], kpis: Kpis) -> tuple[GateResult, ...]:
    """Check the KPIs of a run against gates."""
    return tuple(_checked(gate, kpis) for gate in gates)


def _checked(gate: KpiGate, kpis: Kpis) -> GateResult:
    value = kpis.figure(gate.figure)
    assumed = kpis.assumed if gate.figure in ON_PASSED else 0
    return GateResult(gate=gate, value=value, passed=gate.holds(value), assumed=assumed)


def _read(text: str) -> KpiGate:
    parts = _GATE.fullmatch(text)
    limit = _number(parts[3]) if parts else None
    if parts is None or limit is None:
        raise UsageError(
            f"{text!r} is no gate: write a figure, <= or >=, and a number, such as  pass_rate>=0.8  (in quotes, since"
            f" the shell reads < and >), or  {DEFAULT}"
        )
    if parts[1] not in FIGURES:
        raise UnknownName("figure", parts[1], FIGURES)
    return KpiGate(figure=parts[1], bound=cast("Bound", parts[2]), limit=limit)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
