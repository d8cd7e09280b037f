"""KPI gates: bounds on the figures of a run. A gate checks the rounded figure, as everybody sees it."""

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
_GATE = re.compile(r"\s*([A-Za-z0-9_]+)\s*(<=|>=)\s*([0-9.eE+_-]+)\s*")


class KpiGate(Record, frozen=True):
    """A bound on one figure."""

    figure: str
    bound: Bound
    limit: float

    def __str__(self) -> str:
        return f"{self.figure}{self.bound}{self.limit:.10g}"

    def holds(self, value: float | None) -> bool:
        """Whether a figure keeps to it; one that is not there does not."""
        if value is None:
            return False
        return value <= self.limit if self.bound == "<=" else value >= self.limit


DEFAULTS = (
    KpiGate(figure="coordination_ratio", bound="<=", limit=0.20),
    KpiGate(figure="pass_rate", bound=">=", limit=0.80),
)


class GateResult(Record, frozen=True):
    """A gate and what came to it."""

    gate: KpiGate
    value: float | None
    passed: bool

    def to_json(self) -> dict[str, JsonValue]:
        """As data, with the gate as it is written."""
        return {"gate": str(self.gate), "figure": self.gate.figure, "value": self.value, "passed": self.passed}

    @property
    def words(self) -> str:
        """What stands against what."""
        shown = "unknown, since nothing makes it up yet" if self.value is None else f"{self.value:.10g}"
        asked = "may be at most" if self.gate.bound == "<=" else "has to be at least"
        return f"{self.gate}: {self.gate.figure} is {shown}, and {asked} {self.gate.limit:.10g}"


def read_gates(texts: Iterable[str]) -> tuple[KpiGate, ...]:
    """The gates that texts like `pass_rate>=0.8` ask for; `default` stands for the usual two."""
    found: list[KpiGate] = []
    for text in texts:
        found.extend(DEFAULTS if text.strip() == DEFAULT else [_read(text)])
    return tuple(dict.fromkeys(found))


def check_gates(gates: Sequence[KpiGate], kpis: Kpis) -> tuple[GateResult, ...]:
    """Hold the figures of a run against gates."""
    values = ((gate, kpis.figure(gate.figure)) for gate in gates)
    return tuple(GateResult(gate=gate, value=value, passed=gate.holds(value)) for gate, value in values)


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
