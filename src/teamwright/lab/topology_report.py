"""The evaluation of topologies as a report, and two protocols compared for the same work.

A report has a row for each topology, rankings, and a recommendation with its reason. The figures come from
`teamwright.lab.topology_model`; here they get the names that users script against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack

from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.lab.topology_model import (
    TOPOLOGIES,
    BudgetLevel,
    Evaluation,
    EvaluationSettings,
    Gates,
    ModelTier,
    Preference,
    Protocol,
    Topology,
    TopologyProfiles,
    TopologyReport,
    evaluate as evaluate_settings,
)
from teamwright.lab.topology_options import BUDGET_LEVELS, Options, inputs_of, settings_from
from teamwright.values.value import Record


class RowGates(Record, frozen=True):
    """Which gates a topology passes."""

    coordination_ratio_ok: bool
    quality_ok: bool
    latency_ok: bool
    budget_ok: bool


class Row(Record, frozen=True):
    """The model's figures for one topology."""

    topology: Topology
    participants: int
    model_tier: ModelTier
    tasks_per_worker: float
    degradation_applied: bool
    degradation_actions: tuple[str, ...]
    execution_tokens: int
    coordination_tokens: int
    cache_savings_tokens: int
    total_tokens: int
    coordination_ratio: float
    estimated_pass_rate: float
    estimated_defect_escape: float
    estimated_p95_latency_s: float
    estimated_throughput_tpd: float
    budget_limit_tokens: int
    budget_headroom_tokens: int
    gates: RowGates
    gate_pass: bool


class Rankings(Record, frozen=True):
    """Topologies ranked by several figures, best first; ties keep the order in which they were named."""

    cost_asc: tuple[Topology, ...]
    coordination_ratio_asc: tuple[Topology, ...]
    latency_asc: tuple[Topology, ...]
    pass_rate_desc: tuple[Topology, ...]


class Scored(Record, frozen=True):
    """The score of one topology."""

    topology: Topology
    score: float
    gate_pass: bool


class Choice(Record, frozen=True):
    """The recommended topology: the best score of those that pass their gates, or of all if none does."""

    mode: Preference
    recommended_topology: Topology
    scores: tuple[Scored, ...]
    used_gate_filtered_pool: bool


@dataclass(frozen=True, slots=True)
class Breach:
    """A gate that a topology fails, with its figure and its limit."""

    budget: BudgetLevel
    topology: Topology
    figure: str
    value: float
    bound: float
    sign: str

    def __str__(self) -> str:
        return f"{self.budget} budget, {self.topology}: {self.text}"

    @property
    def text(self) -> str:
        return f"{self.figure} {self.value:.10g} is {'below' if self.sign == '<' else 'above'} {self.bound:.10g}"


@dataclass(frozen=True, slots=True)
class Section:
    """The evaluation at one budget level."""

    settings: EvaluationSettings
    results: tuple[Row, ...]
    rankings: Rankings
    recommendation: Choice

    @property
    def chosen(self) -> Row:
        return self.row(self.recommendation.recommended_topology)

    def row(self, topology: Topology) -> Row:
        return next(one for one in self.results if one.topology == topology)

    def breaches(self) -> Iterator[Breach]:
        """Every gate that a topology fails at this budget level."""
        for row in self.results:
            yield from _breaches(row, self.settings.budget, self.settings.gates)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "results": [row.to_json() for row in self.results],
            "rankings": self.rankings.to_json(),
            "recommendation": self.recommendation.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """Topologies evaluated for the same work, at one budget level or at all of them."""

    section: Section
    budget_sweep: tuple[Section, ...] = ()

    @property
    def settings(self) -> EvaluationSettings:
        return self.section.settings

    @property
    def results(self) -> tuple[Row, ...]:
        """A row for each topology, in the order in which they were named."""
        return self.section.results

    @property
    def rankings(self) -> Rankings:
        """Topologies by cost, coordination, time and quality."""
        return self.section.rankings

    @property
    def recommendation(self) -> Choice:
        """The recommended topology, with the scores."""
        return self.section.recommendation

    @property
    def sections(self) -> tuple[Section, ...]:
        """Every evaluated budget level, once."""
        return self.budget_sweep or (self.section,)

    def breaches(self) -> list[Breach]:
        """Every gate that a topology fails, at every evaluated budget level."""
        return [breach for section in self.sections for breach in section.breaches()]

    def to_json(self) -> dict[str, JsonValue]:
        """As data: `inputs`, `results`, `rankings`, `recommendation`, and `budget_sweep` with all budgets."""
        found: dict[str, JsonValue] = {"inputs": inputs_of(self.settings), **self.section.to_json()}
        if self.budget_sweep:
            found["budget_sweep"] = [
                {"budget_profile": one.settings.budget, **one.to_json()} for one in self.budget_sweep
            ]
        return found

    def __str__(self) -> str:
        from teamwright.lab.topology_tables import report_text

        return report_text(self)


def evaluate(
    *, all_budgets: bool = False, profiles: TopologyProfiles = TOPOLOGIES, **options: Unpack[Options]
) -> Report:
    """Evaluate topologies for a workload; the defaults are 24 tasks of 1400 tokens and a medium budget."""
    return report_of(settings_from(options), all_budgets=all_budgets, profiles=profiles)


def report_of(
    settings: EvaluationSettings, *, all_budgets: bool = False, profiles: TopologyProfiles = TOPOLOGIES
) -> Report:
    """Evaluate topologies with these settings, and return the report."""
    budgets: Sequence[BudgetLevel] = BUDGET_LEVELS if all_budgets else ()
    every = [settings.model_copy(update={"budget": budget}) for budget in budgets]
    sections = (section_of(evaluate_settings(one, profiles)) for one in every)
    return Report(section_of(evaluate_settings(settings, profiles)), tuple(sections))


def section_of(found: TopologyReport) -> Section:
    """An evaluation under the names of a report."""
    rows = tuple(row_of(one, found.settings.tasks) for one in found.evaluations)
    return Section(found.settings, rows, _rankings(rows), _choice(found))


def row_of(one: Evaluation, tasks: int) -> Row:
    """The figures of one topology under the names of a report."""
    return Row(
        topology=one.topology,
        participants=one.participants,
        model_tier=one.model_tier,
        tasks_per_worker=round(tasks / one.parallelism, 2),
        degradation_applied=bool(one.actions),
        degradation_actions=one.actions,
        execution_tokens=one.execution_tokens,
        coordination_tokens=one.coordination_tokens,
        cache_savings_tokens=one.cache_savings,
        total_tokens=one.total_tokens,
        coordination_ratio=one.coordination_ratio,
        estimated_pass_rate=one.pass_rate,
        estimated_defect_escape=one.defect_escape,
        estimated_p95_latency_s=one.p95_latency_s,
        estimated_throughput_tpd=one.throughput,
        budget_limit_tokens=one.budget_limit,
        budget_headroom_tokens=one.budget_headroom,
        gates=RowGates(
            coordination_ratio_ok=one.gates.coordination_ratio,
            quality_ok=one.gates.pass_rate,
            latency_ok=one.gates.p95_latency_s,
            budget_ok=one.gates.budget,
        ),
        gate_pass=one.passed,
    )


def _rankings(rows: Sequence[Row]) -> Rankings:
    return Rankings(
        cost_asc=tuple(row.topology for row in sorted(rows, key=lambda row: row.total_tokens)),
        coordination_ratio_asc=tuple(row.topology for row in sorted(rows, key=lambda row: row.coordination_ratio)),
        latency_asc=tuple(row.topology for row in sorted(rows, key=lambda row: row.estimated_p95_latency_s)),
        pass_rate_desc=tuple(row.topology for row in sorted(rows, key=lambda row: -row.estimated_pass_rate)),
    )


def _choice(found: TopologyReport) -> Choice:
    made = found.recommendation
    return Choice(
        mode=made.preference,
        recommended_topology=made.topology,
        scores=tuple(Scored(topology=one.topology, score=one.score, gate_pass=one.passed) for one in made.scores),
        used_gate_filtered_pool=made.pool == "passing",
    )


def _breaches(row: Row, budget: BudgetLevel, gates: Gates) -> Iterator[Breach]:
    passes = row.gates
    checks: tuple[tuple[bool, str, float, float, str], ...] = (
        (passes.coordination_ratio_ok, "coordination_ratio", row.coordination_ratio, gates.max_coordination_ratio, ">"),
        (passes.quality_ok, "estimated_pass_rate", row.estimated_pass_rate, gates.min_pass_rate, "<"),
        (passes.latency_ok, "estimated_p95_latency_s", row.estimated_p95_latency_s, gates.max_p95_latency_s, ">"),
        (passes.budget_ok, "total_tokens", row.total_tokens, row.budget_limit_tokens, ">"),
    )
    for passed, figure, value, bound, sign in checks:
        if not passed:
            yield Breach(budget, row.topology, figure, value, bound, sign)


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

    def __str__(self) -> str:
        from teamwright.lab.topology_tables import comparison_text

        return comparison_text(self)

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
