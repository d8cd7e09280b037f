"""Reports and sweeps as tables of text. Pure: values in, text out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from teamwright.values.text.display import NOTHING, count_text, number_text

if TYPE_CHECKING:
    from teamwright.lab.topology_model import BudgetLevel, EvaluationSettings, Topology
    from teamwright.lab.topology_report import Comparison, Difference, FigureChange, Report, Row, Section
    from teamwright.lab.topology_sweep import Sweep


@dataclass(frozen=True, slots=True)
class Table:
    """Heads and rows of cells; the columns with an index in `left` are left-aligned, all others right-aligned."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[int] = (0,)

    def text(self) -> str:
        lines = [self.heads, *self.rows]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        return "\n".join("  ".join(self._aligned(line, widths)).rstrip() for line in lines)

    def _aligned(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        pairs = enumerate(zip(line, widths, strict=True))
        return [cell.ljust(width) if place in self.left else cell.rjust(width) for place, (cell, width) in pairs]


def list_text(names: Sequence[str]) -> str:
    """A list in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


WIDTH = 80
GATES = {"coordination_ratio_ok": "talk", "quality_ok": "pass rate", "latency_ok": "p95", "budget_ok": "tokens"}
"""The names of failed gates in a table."""


def report_text(report: Report) -> str:
    """A report for a terminal."""
    parts = [textwrap.fill(report_line(report), WIDTH)]
    for section in report.sections:
        title = f"{section.settings.budget} budget\n" if report.budget_sweep else ""
        parts.append(title + section_table(section).text())
        parts.append(textwrap.fill(reason(section), WIDTH, break_on_hyphens=False))
    return "\n\n".join(parts)


def comparison_text(comparison: Comparison) -> str:
    """A comparison for a terminal."""
    head = textwrap.fill(comparison_line(comparison), WIDTH)
    parts = [head]
    for section in comparison.first.sections:
        budget = section.settings.budget
        title = f"{budget} budget\n" if comparison.first.budget_sweep else ""
        parts.append(title + comparison_table(comparison, budget).text())
    below = [textwrap.fill(sentence, WIDTH, break_on_hyphens=False) for sentence in choices(comparison)]
    return "\n\n".join([*parts, "\n".join(below)])


def comparison_line(comparison: Comparison) -> str:
    """The work for which protocols are compared, as a line."""
    report, (first, second) = comparison.first, comparison.protocols
    budget = "all budgets" if report.budget_sweep else f"{report.settings.budget} budget"
    return f"{work_line(report.settings)}, {budget}{_degradation(report.settings)}: {first} → {second}"


def comparison_table(comparison: Comparison, budget: BudgetLevel) -> Table:
    """The figures with both protocols side by side."""
    rows = [_comparison_cells(row) for row in comparison.differences if row.budget == budget]
    return Table(("TOPOLOGY", "TOKENS", "", "TALK", "PASS", "GATES"), rows, left=(0, 5))


def choices(comparison: Comparison) -> Iterator[str]:
    """The recommendation with each protocol, at each budget level."""
    first, second = comparison.protocols
    for one, other in zip(comparison.first.sections, comparison.second.sections, strict=True):
        before, after = one.recommendation.recommended_topology, other.recommendation.recommended_topology
        where = f"With a {one.settings.budget} budget"
        if before == after:
            yield f"{where} {before} is recommended either way."
        else:
            yield f"{where} {before} is recommended with {first}, and {after} with {second}."


def _comparison_cells(row: Difference) -> tuple[str, ...]:
    figures = row.figures
    tokens = figures["total_tokens"]
    return (
        row.topology,
        _both(tokens, lambda value: number_text(round(value))),
        f"{tokens.difference / tokens.first:+.1%}",
        _both(figures["coordination_ratio"], lambda value: f"{value:.1%}"),
        _both(figures["estimated_pass_rate"], lambda value: f"{value * 100:.4g}%"),
        " → ".join("pass" if passed else "fail" for passed in row.gate_pass),
    )


def _both(change: FigureChange, shown: Callable[[float], str]) -> str:
    return f"{shown(change.first)} → {shown(change.second)}"


def report_line(report: Report) -> str:
    """The evaluated work, as a line."""
    settings = report.settings
    budget = "all budgets" if report.budget_sweep else f"{settings.budget} budget"
    return f"{work_line(settings)}, {budget}, {settings.protocol}{_degradation(settings)}"


def work_line(settings: EvaluationSettings) -> str:
    """The amount and the kind of work, as text."""
    return (
        f"{count_text(settings.tasks, 'task')} of about {count_text(settings.average_tokens, 'token')},"
        f" {count_text(settings.rounds, 'round')}, {settings.workload} work"
    )


def _degradation(settings: EvaluationSettings) -> str:
    return "" if settings.degradation == "none" else f", {settings.degradation} degradation"


def section_table(section: Section) -> Table:
    """The topologies with the figures that decide the recommendation."""
    scores = {one.topology: f"{one.score:.5f}" for one in section.recommendation.scores}
    rows = [_cells(row, scores.get(row.topology, NOTHING)) for row in section.results]
    return Table(("TOPOLOGY", "MEMBERS", "TOKENS", "TALK", "PASS", "P95", "SCORE", "FAILS"), rows, left=(0, 7))


def reason(section: Section) -> str:
    """Which topology is recommended and why, compared with the next one, and which gates others fail."""
    choice, (first, *others) = section.recommendation, section.recommendation.scores
    if not choice.used_gate_filtered_pool:
        pool = (
            f"none passes its gates, and of all {len(choice.scores)}"
            if others
            else "it fails its gates, but is the only one"
        )
    elif others:
        pool = f"of the {len(choice.scores)} that pass their gates"
    else:
        pool = "no other passes its gates" if len(section.results) > 1 else "it passes its gates"
    best = f" it has the best {choice.mode} score," if others else f"; its {choice.mode} score is"
    sentences = [f"{first.topology} is recommended: {pool}{best} {first.score:.5f}."]
    if others:
        sentences.append(_versus(section.chosen, section.row(others[0].topology), others[0].score))
    return " ".join([*sentences, *_failed_gates(section), *_cutbacks(section)])


def _versus(chosen: Row, other: Row, score: float) -> str:
    tokens = _share(chosen.total_tokens, other.total_tokens, "tokens")
    time = _share(chosen.estimated_p95_latency_s, other.estimated_p95_latency_s, "time")
    points = round((chosen.estimated_pass_rate - other.estimated_pass_rate) * 100, 2)
    passes = (
        f"a pass rate {abs(points):g} points {'higher' if points > 0 else 'lower'}" if points else "the same pass rate"
    )
    return f"Compared with {other.topology} ({score:.5f}), it takes {tokens} and {time}, with {passes}."


def _share(one: float, other: float, what: str) -> str:
    if not other and one:
        return f"more {what} than none"
    share = round((one / other - 1) * 100, 1) if other else 0.0
    if not share:
        return f"as {'many' if what == 'tokens' else 'much'} {what}"
    more = "more" if share > 0 else "fewer" if what == "tokens" else "less"
    return f"{abs(share):g} % {more} {what}"


def _failed_gates(section: Section) -> Iterator[str]:
    failed: dict[str, list[str]] = {}
    for breach in section.breaches():
        failed.setdefault(breach.topology, []).append(breach.text)
    if failed:
        yield "Failed gates: " + "; ".join(f"{name}, {list_text(gates)}" for name, gates in failed.items()) + "."


def _cutbacks(section: Section) -> Iterator[str]:
    degraded = [row for row in section.results if row.degradation_applied]
    if degraded:
        actions = (f"{row.topology}, {list_text(row.degradation_actions)}" for row in degraded)
        yield f"Degraded: {'; '.join(actions)}."


def _cells(row: Row, score: str) -> tuple[str, ...]:
    failed = [GATES[name] for name, passed in row.gates.to_json().items() if not passed]
    return (
        row.topology,
        str(row.participants),
        number_text(row.total_tokens),
        f"{row.coordination_ratio:.2%}",
        f"{row.estimated_pass_rate * 100:.4g}%",
        f"{row.estimated_p95_latency_s:.1f} s",
        score,
        ", ".join(failed) or NOTHING,
    )


MOST_VALUES = 12
"""A dimension with more values is abbreviated."""


def sweep_text(sweep: Sweep) -> str:
    """A sweep for a terminal."""
    head, tail = (textwrap.fill(line, WIDTH) for line in (_sweep_head(sweep), _sweep_choices(sweep)))
    return f"{head}\n\n{summary_table(sweep).text()}\n\n{tail}"


def summary_table(sweep: Sweep) -> Table:
    """A row for each value of the dimensions that vary."""
    heads = ("MEAN", "TOKENS", "TALK", "PASS", "P95", "GATES", "RECOMMENDED")
    rows = [row for name in sweep.axes.swept or ("topology",) for row in _sweep_rows(sweep, name)]
    return Table(heads, rows, left=(0, 6))


def _sweep_rows(sweep: Sweep, name: str) -> Iterator[tuple[str, ...]]:
    values = sweep.axes.values(name)
    columns = [
        sweep.cells.means(column, (name,))
        for column in (
            "total_tokens", "coordination_ratio", "estimated_pass_rate", "estimated_p95_latency_s", "gate_pass",
        )
    ]  # fmt: skip
    best = _sweep_recommended(sweep, name)
    shown = _shown(len(values))
    yield (name, *[""] * 6)
    for place, value in enumerate(values):
        if place in shown:
            cells = [cast("float", column[place]) for column in columns]
            yield (f"  {value}", *_sweep_figures(*cells), best[place])
        elif place - 1 in shown:
            yield ("  …", *[""] * 6)


def _sweep_figures(tokens: float, ratio: float, passes: float, time: float, gates: float) -> tuple[str, ...]:
    return number_text(round(tokens)), f"{ratio:.1%}", f"{passes:.1%}", f"{time:.1f} s", f"{gates:.0%}"


def _sweep_recommended(sweep: Sweep, name: str) -> list[str]:
    """The topology that is recommended most often at each value, with its share; for a topology, its own share."""
    topologies: tuple[Topology, ...] = sweep.axes.topology
    if name == "topology":
        return [f"in {share or 0:.0%}" for share in sweep.cells.means("recommended", (name,))]
    shares = sweep.cells.means("recommended", (name, "topology"))
    found: list[str] = []
    for at in range(0, len(shares), len(topologies)):
        here = [share or 0.0 for share in shares[at : at + len(topologies)]]
        most = max(here)
        found.append(f"{topologies[here.index(most)]} {most:.0%}" if most else NOTHING)
    return found


def _shown(count: int) -> set[int]:
    """The indexes of the values that are shown: all, or the first ones and the last."""
    return set(range(count)) if count <= MOST_VALUES else {*range(MOST_VALUES - 1), count - 1}


def _sweep_head(sweep: Sweep) -> str:
    axes = sweep.axes
    sizes = " × ".join(f"{len(axes.values(name))} {name}" for name in axes.swept)
    fixed = ", ".join(f"{name} {axes.values(name)[0]}" for name in axes.__dataclass_fields__ if name not in axes.swept)
    return count_text(len(sweep), "cell") + (f": {sizes}" if sizes else "") + (f" ({fixed})" if fixed else "")


def _sweep_choices(sweep: Sweep) -> str:
    axes = sweep.axes
    passing = sweep.cells.means("gate_pass", ())[0] or 0
    # Each combination of the other dimensions has one recommendation.
    shares = zip(axes.topology, sweep.cells.means("recommended", ("topology",)), strict=True)
    ranked = sorted(((share or 0.0, topology) for topology, share in shares), key=lambda one: -one[0])
    named = ", ".join(f"{topology} in {share:.1%}" for share, topology in ranked if share)
    combinations = count_text(len(sweep) // len(axes.topology), "combination")
    return f"{passing:.1%} of the cells pass their gates. Of {combinations}, recommended: {named}."
