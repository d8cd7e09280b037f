"""Compares two protocols for the same work: envelopes and full transcripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.lab.evaluation.options import Options, inputs_of, settings_from
from teamwright.lab.evaluation.report import Breach, Report, Row, Section, report_of
from teamwright.lab.topology.profiles import TOPOLOGIES, BudgetLevel, Protocol, Topology, TopologyProfiles
from teamwright.values.models import Record

PROTOCOLS: tuple[Protocol, Protocol] = ("a2a_lite", "transcript")
COMPARED = (
    "coordination_tokens", "cache_savings_tokens", "total_tokens", "coordination_ratio", "estimated_pass_rate",
    "estimated_p95_latency_s", "estimated_throughput_tpd", "budget_headroom_tokens",
)  # fmt: skip
"""The figures that a protocol changes."""
DECIMALS = 4


class FigureChange(Record, frozen=True):
    """A figure with each protocol, and the difference of the second from the first."""

    first: float
    second: float
    difference: float


@dataclass(frozen=True, slots=True)
class Difference:
    """What changes for one topology at one budget level."""

    budget: BudgetLevel
    topology: Topology
    figures: dict[str, FigureChange]
    gate_pass: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two reports on the same work, and what differs between them."""

    first: Report
    second: Report
    protocols: tuple[Protocol, Protocol] = PROTOCOLS

    @property
    def differences(self) -> list[Difference]:
        """A row for each topology at each budget level."""
        pairs = zip(self.first.sections, self.second.sections, strict=True)
        return [row for one, other in pairs for row in _differences(one, other)]

    def breaches(self) -> list[tuple[Protocol, Breach]]:
        """Every gate that any topology fails, with the protocol."""
        reports = zip(self.protocols, (self.first, self.second), strict=True)
        return [(protocol, breach) for protocol, report in reports for breach in report.breaches()]

    def to_json(self) -> dict[str, JsonValue]:
        """As data: `inputs`, the two reports by the names of their protocols, and `differences`."""
        inputs = inputs_of(self.first.settings)
        del inputs["protocol"]
        inputs["protocols"] = list(self.protocols)
        found: dict[str, JsonValue] = {"inputs": inputs}
        for protocol, report in zip(self.protocols, (self.first, self.second), strict=True):
            found[protocol] = {name: part for name, part in report.to_json().items() if name != "inputs"}
        found["differences"] = [self._difference_json(row) for row in self.differences]
        return found

    def svg(self) -> str:
        """The plot of cost against quality, with an arrow for each topology, as SVG."""
        from teamwright.lab.evaluation.plot import comparison_plot

        return comparison_plot(self)

    def plot(self, file: str | Path) -> None:
        """Write the plot to a file that ends in .svg or .png."""
        from teamwright.lab.drawing.svg import save

        save(self.svg(), file)

    def __str__(self) -> str:
        from teamwright.lab.evaluation.text import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from teamwright.lab.evaluation.text import comparison_html

        return comparison_html(self)

    def _difference_json(self, row: Difference) -> dict[str, JsonValue]:
        first, second = self.protocols
        figures: dict[str, JsonValue] = {
            name: {first: change.first, second: change.second, "difference": change.difference}
            for name, change in row.figures.items()
        }
        passes: JsonValue = {first: row.gate_pass[0], second: row.gate_pass[1]}
        return {"budget_profile": row.budget, "topology": row.topology, **figures, "gate_pass": passes}


def compare(
    *, all_budgets: bool = False, profiles: TopologyProfiles = TOPOLOGIES, **options: Unpack[Options]
) -> Comparison:
    """Evaluate topologies for the same work with envelopes and with transcripts."""
    if "protocol" in options:
        raise UsageError(f"protocol can't be set here, because {' and '.join(PROTOCOLS)} are compared; omit it.")
    settings = settings_from(options)
    first, second = (
        report_of(settings.model_copy(update={"protocol": protocol}), all_budgets=all_budgets, profiles=profiles)
        for protocol in PROTOCOLS
    )
    return Comparison(first, second)


def _differences(one: Section, other: Section) -> Iterator[Difference]:
    for before, after in zip(one.results, other.results, strict=True):
        figures = {name: _change(before, after, name) for name in COMPARED}
        yield Difference(one.settings.budget, before.topology, figures, (before.gate_pass, after.gate_pass))


def _change(before: Row, after: Row, name: str) -> FigureChange:
    first, second = getattr(before, name), getattr(after, name)
    return FigureChange(first=first, second=second, difference=round(second - first, DECIMALS))
