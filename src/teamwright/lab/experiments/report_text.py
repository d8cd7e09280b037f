"""The report of an experiment as text, and as one HTML page with a plot that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from teamwright.lab.experiments.report import (
    ExperimentReport,
    GroupResult,
    JudgeReport,
    PairedComparison,
    VariantResult,
)
from teamwright.lab.experiments.statistics import Interval
from teamwright.values.text.display import NOTHING, count_text, cut, number_text, price_text

HEADS = ("", "CASES", "PASSED", "PASS RATE", "SCORE", "PRICE", "PER PASS", "TOKENS", "TIME")
LONGEST_REASON, MOST_FAILED = 70, 20
WIDTH, LEFT, ROW = 640, 160, 26
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1c1f24;"
    "background:#fff}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem .25rem 0;"
    "text-align:left;border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}svg{max-width:100%}"
    "pre{overflow-x:auto}svg text{font:13px system-ui,sans-serif;fill:currentColor}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181c}td,th{border-color:#444}}"
)


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.0f} %"


def interval_text(found: Interval | None) -> str:
    """A rate with its interval."""
    return NOTHING if found is None else f"{percent(found.value)} [{100 * found.low:.0f}–{100 * found.high:.0f}]"


def text_of(report: ExperimentReport) -> str:
    """The report as text."""
    return "\n\n".join([_aligned(_variants(report)), *findings_of(report), *_groups(report)])


def _variants(report: ExperimentReport) -> list[tuple[str, ...]]:
    return [HEADS, *(variant_cells(one) for one in report.variants)]


def findings_of(report: ExperimentReport) -> Iterator[str]:
    """What is to be said about the variants: notes, the judge, and comparisons."""
    for lines in (list(_notes(report)), list(_judge(report.judge))):
        if lines:
            yield "\n".join(lines)
    if report.ablated:
        yield "\n".join(one.sentence for one in report.comparisons) or "nothing can be left out of this team"
    else:
        yield from map(comparison_text, report.comparisons)


def _groups(report: ExperimentReport) -> Iterator[str]:
    """The tables of tags, and of cases that did not pass."""
    shown = {one.variant for one in (report.variants[:1] if report.ablated else report.variants)}
    if tags := [one for one in report.by_tag if one.variant in shown]:
        yield _aligned([("TAG", "", "PASSED", "PASS RATE"), *map(_group_cells, tags)])
    if failed := [one for one in report.by_case if one.passed < one.trials and one.variant in shown]:
        rows = [(*_group_cells(one)[:3], cut(one.reason, LONGEST_REASON)) for one in failed[:MOST_FAILED]]
        more = f"\n… and {len(failed) - MOST_FAILED} more" if len(failed) > MOST_FAILED else ""
        yield _aligned([("CASE", "", "PASSED", "WHY NOT"), *rows]) + more


def variant_cells(one: VariantResult) -> tuple[str, ...]:
    """The figures of a variant in the order of `HEADS`."""
    return (
        one.variant,
        str(one.cases),
        f"{one.passed} of {one.trials}",
        interval_text(one.pass_rate),
        NOTHING if one.score is None else f"{one.score.value:.2f} [{one.score.low:.2f}–{one.score.high:.2f}]",
        NOTHING if one.usd is None else price_text(one.usd),
        NOTHING if one.usd_per_pass is None else price_text(one.usd_per_pass),
        number_text(round(one.tokens)),
        f"{one.seconds:.1f} s",
    )


def _notes(report: ExperimentReport) -> Iterator[str]:
    for one in report.variants[:1] if report.ablated else report.variants:
        name = f"{one.variant}: " if len(report.variants) > 1 and not report.ablated else ""
        if len(one.pass_all) > 1:
            k = len(one.pass_all)
            yield f"{name}pass^{k} {percent(one.pass_all[-1])}, pass@{k} {percent(one.pass_any[-1])}"
        if one.flaky:
            shown = ", ".join(one.flaky[:10]) + (" …" if len(one.flaky) > 10 else "")
            yield f"{name}{count_text(len(one.flaky), 'flaky case')}: {shown}"
        if one.unmeasured:
            why = next(trial.reason for trial in report.trials if trial.variant == one.variant and trial.passed is None)
            yield f"{name}not measured: {count_text(one.unmeasured, 'run')}, {why}"
        if one.waiting:
            yield f"{name}not passed, because they wait for a person: {count_text(one.waiting, 'run')}"
    if report.assumed:
        yield "some cases expect nothing: their runs count as passed if they completed"


def _judge(judge: JudgeReport | None) -> Iterator[str]:
    if judge is None:
        return
    agreed = "" if judge.kappa is None else f", kappa {judge.kappa:.2f}"
    yield f"judge: agrees with {interval_text(judge.agreement)} of {count_text(judge.labels, 'label')}{agreed}"
    yield f"  passes {_known(judge.passes_bad)} of bad answers, fails {_known(judge.fails_good)} of good ones"
    if judge.order_changes is not None:
        yield f"  by order: {interval_text(judge.order_changes)} of verdicts change with the order of criteria"
    for one in judge.authors:
        yield (
            f"  by author: of {count_text(one.answers, 'answer')} of {one.author}, passes {_known(one.passes_bad)} of"
            f" bad ones, fails {_known(one.fails_good)} of good ones"
        )


def _known(share: float | None) -> str:
    return NOTHING if share is None else percent(share)


def comparison_text(one: PairedComparison) -> str:
    """The sentence about two variants, with the change of cost."""
    cost = "" if one.cost is None else f"\n{one.second!r} costs {change_text(one.cost)} of what {one.first!r} costs"
    return one.sentence + cost


def change_text(cost: Interval) -> str:
    """A relative cost with its interval: 69 % [63–74]."""
    return f"{percent(1 + cost.value)} [{100 + 100 * cost.low:.0f}–{100 + 100 * cost.high:.0f}]"


def _group_cells(one: GroupResult) -> tuple[str, ...]:
    return one.name, one.variant, f"{one.passed} of {one.trials}", interval_text(one.pass_rate)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def html_of(report: ExperimentReport, title: str) -> str:
    """The report as one page: the plot, the table of variants, and the rest as text."""
    name = escape(title)
    head, *body = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in _variants(report)]
    table = f"<table><thead><tr>{head}</tr></thead>" + "".join(f"<tr>{row}</tr>" for row in body) + "</table>"
    said = "".join(f"<p>{escape(text).replace(chr(10), '<br>')}</p>" for text in findings_of(report))
    groups = "".join(f"<pre>{escape(text)}</pre>" for text in _groups(report))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title><style>{STYLE}</style>'
        f"<h1>{name}</h1>{_plot(report)}{table}{said}{groups}</html>\n"
    )


def _plot(report: ExperimentReport) -> str:
    """The pass rates with their intervals, of each variant and of its tags."""
    rows = [(one.variant, one.pass_rate) for one in report.variants if one.pass_rate is not None]
    rows += [(f"{one.name} · {one.variant}", one.pass_rate) for one in report.by_tag]
    high, scale = ROW * (len(rows) + 2), WIDTH - LEFT - 40
    parts = [f'<svg viewBox="0 0 {WIDTH} {high}" role="img" aria-label="Pass rates with 95 % intervals">']
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = LEFT + share * scale
        parts.append(f'<path d="M{x:.1f} 8V{high - ROW}" stroke="#8886"/>')
        parts.append(f'<text x="{x:.1f}" y="{high - 8}" text-anchor="middle">{percent(share)}</text>')
    for number, (name, rate) in enumerate(rows):
        y = ROW * (number + 1)
        low, value, high_end = (LEFT + scale * one for one in (rate.low, rate.value, rate.high))
        parts.append(f'<text x="0" y="{y + 4}">{escape(cut(name, 24))}</text>')
        parts.append(f'<path d="M{low:.1f} {y}H{high_end:.1f}" stroke="#2f6fde" stroke-width="3"/>')
        title = f"<title>{interval_text(rate)}</title>"
        parts.append(f'<circle cx="{value:.1f}" cy="{y}" r="5" fill="#2f6fde">{title}</circle>')
    return "".join([*parts, "</svg>"])
