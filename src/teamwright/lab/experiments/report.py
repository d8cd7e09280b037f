"""What an experiment found: rates, costs and differences with their intervals, and how far its judge can be trusted.

It is computed from the trials alone; what was not measured counts neither for nor against a team. It is written as
text, and as one HTML page with a plot that needs nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean
from typing import cast

from teamwright.errors import UsageError
from teamwright.lab.experiments.dataset import Case
from teamwright.lab.experiments.experiment import CaseAttempt, JudgedLabel
from teamwright.lab.experiments.statistics import (
    NOTABLE,
    Interval,
    all_pass,
    any_passes,
    cases_needed,
    difference,
    kappa,
    mean,
    pass_rate,
    relative_change,
    wilson,
)
from teamwright.values.text.display import NOTHING, count_text, cut, number_text, price_text
from teamwright.values.value import JsonValue, Record, to_plain_json

COSTS = ("usd", "tokens")
SHOWN = 0.005
"""The least change of cost that is shown."""


class VariantResult(Record, frozen=True):
    """What one team did on the cases that were measured. `assumed` says that completed runs count as passed.

    `pass_all` and `pass_any` are pass^k and pass@k, from k = 1. Costs are those of the team alone, per attempt.
    """

    variant: str
    cases: int
    trials: int
    passed: int
    unmeasured: int
    pass_rate: Interval | None
    pass_all: tuple[float, ...] = ()
    pass_any: tuple[float, ...] = ()
    score: Interval | None = None
    usd: float | None = None
    usd_per_pass: float | None = None
    judge_usd: float | None = None
    tokens: float = 0.0
    seconds: float = 0.0
    flaky: tuple[str, ...] = ()
    waiting: int = 0


class GroupResult(Record, frozen=True):
    """The passes of a variant at a case, or at the cases with a tag."""

    name: str
    variant: str
    trials: int
    passed: int
    pass_rate: Interval
    reason: str = ""


class PairedComparison(Record, frozen=True):
    """The second variant minus the first, over the cases that both have. `cost` is a share of the first's."""

    first: str
    second: str
    cases: int
    pass_rate: Interval
    cost: Interval | None
    sentence: str
    needed: int = 0


class AuthorBias(Record, frozen=True):
    """How often the judge passes bad answers of an author, and fails good ones."""

    author: str
    answers: int
    passes_bad: float | None
    fails_good: float | None


class JudgeReport(Record, frozen=True):
    """How a judge does on answers that people have labelled.

    `order_changes` is the share of its verdicts that change when its criteria are listed in reverse order.
    """

    labels: int
    agreement: Interval
    kappa: float | None
    passes_bad: float | None
    fails_good: float | None
    order_changes: Interval | None = None
    authors: tuple[AuthorBias, ...] = ()


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """The whole report. `by_case` and `by_tag` have one row for each variant."""

    variants: tuple[VariantResult, ...]
    comparisons: tuple[PairedComparison, ...]
    by_case: tuple[GroupResult, ...]
    by_tag: tuple[GroupResult, ...]
    judge: JudgeReport | None
    trials: tuple[CaseAttempt, ...]
    assumed: bool
    ablated: bool = False
    """Whether the later variants are the first without one of its parts each."""

    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data; `trials` are what a later experiment can be compared with."""
        return {name: to_plain_json(getattr(self, name)) for name in self.__slots__}


def report_of(
    trials: Sequence[CaseAttempt],
    cases: Sequence[Case],
    labels: Sequence[JudgedLabel] = (),
    *,
    assumed: bool = False,
    ablated: bool = False,
) -> ExperimentReport:
    """Compute the report of an experiment; later variants are compared with the first."""
    names = list(dict.fromkeys(one.variant for one in trials))
    by_variant = {name: [one for one in trials if one.variant == name] for name in names}
    tags = list(dict.fromkeys(tag for case in cases for tag in case.tags))
    tagged = {tag: [case.id for case in cases if tag in case.tags] for tag in tags}
    return ExperimentReport(
        variants=tuple(_variant(name, own) for name, own in by_variant.items()),
        comparisons=tuple(
            compare(by_variant[names[0]], by_variant[name], ablated=ablated)
            for name in names[1:]
            if _counts(by_variant[names[0]]).keys() & _counts(by_variant[name]).keys()
        ),
        by_case=tuple(_groups({case.id: (case.id,) for case in cases}, by_variant)),
        by_tag=tuple(_groups(tagged, by_variant)),
        judge=judge_report(labels) if labels else None,
        trials=tuple(trials),
        assumed=assumed,
        ablated=ablated,
    )


def _variant(name: str, trials: Sequence[CaseAttempt]) -> VariantResult:
    measured = [one for one in trials if one.passed is not None]
    counts = list(_counts(trials).values())
    fewest = min((tries for _, tries in counts), default=0)
    passed, usd = sum(bool(one.passed) for one in measured), _total(one.usd for one in measured)
    scores = list(_means(trials, "score").values())
    return VariantResult(
        variant=name,
        cases=len(counts),
        trials=len(measured),
        passed=passed,
        unmeasured=len(trials) - len(measured),
        pass_rate=pass_rate(counts).rounded() if counts else None,
        pass_all=tuple(round(all_pass(counts, k), 4) for k in range(1, fewest + 1)),
        pass_any=tuple(round(any_passes(counts, k), 4) for k in range(1, fewest + 1)),
        score=mean(scores).rounded() if scores else None,
        usd=None if usd is None else round(usd / len(measured), 8),
        usd_per_pass=round(usd / passed, 8) if usd is not None and passed else None,
        judge_usd=_total(one.judge_usd for one in measured),
        tokens=round(fmean(one.tokens for one in measured), 1) if measured else 0.0,
        seconds=round(fmean(one.seconds for one in measured), 2) if measured else 0.0,
        flaky=tuple(case for case, (good, tries) in _counts(trials).items() if 0 < good < tries),
        waiting=sum(one.status == "paused" for one in measured),
    )


def _total(amounts: Iterable[float | None]) -> float | None:
    known = [one for one in amounts if one is not None]
    return sum(known) if known else None


def _counts(trials: Iterable[CaseAttempt]) -> dict[str, tuple[int, int]]:
    """For each case, how many attempts passed, and how many were measured."""
    found: dict[str, tuple[int, int]] = {}
    for one in trials:
        if one.passed is not None:
            passed, tries = found.get(one.case, (0, 0))
            found[one.case] = passed + one.passed, tries + 1
    return found


def _by_case(trials: Iterable[CaseAttempt]) -> dict[str, list[CaseAttempt]]:
    """The measured attempts at each case."""
    found: defaultdict[str, list[CaseAttempt]] = defaultdict(list)
    for one in trials:
        if one.passed is not None:
            found[one.case].append(one)
    return found


def _groups(
    groups: Mapping[str, Sequence[str]], by_variant: Mapping[str, Sequence[CaseAttempt]]
) -> Iterable[GroupResult]:
    measured = {variant: _by_case(trials) for variant, trials in by_variant.items()}
    for name, members in groups.items():
        for variant, by_case in measured.items():
            own = [one for case in members for one in by_case.get(case, ())]
            if not own:
                continue
            counts = list(_counts(own).values())
            rate = pass_rate(counts) if len(counts) > 1 else wilson(counts[0][0] / counts[0][1], counts[0][1])
            yield GroupResult(
                name=name,
                variant=variant,
                trials=len(own),
                passed=sum(bool(one.passed) for one in own),
                pass_rate=rate.rounded(),
                reason=next((one.reason for one in own if not one.passed), ""),
            )


def compare(first: Sequence[CaseAttempt], second: Sequence[CaseAttempt], *, ablated: bool = False) -> PairedComparison:
    """Compare two variants over the cases that both have."""
    one, other = _counts(first), _counts(second)
    shared = [case for case in one if case in other]
    if not shared:
        raise UsageError("The two have no case in common, so that they can't be compared; use the same data set.")
    before, after = [one[case] for case in shared], [other[case] for case in shared]
    change, cost = difference(before, after).rounded(), _cost(first, second, shared)
    needed = cases_needed(before, after) if change.holds_zero else 0
    names = first[0].variant, second[0].variant
    return PairedComparison(
        first=names[0],
        second=names[1],
        cases=len(shared),
        pass_rate=change,
        cost=cost,
        sentence=_ablation(names[1], change, cost, len(shared)) if ablated else _sentence(*names, change, needed),
        needed=needed,
    )


def _cost(first: Sequence[CaseAttempt], second: Sequence[CaseAttempt], shared: Sequence[str]) -> Interval | None:
    """The change of what a case costs, in money, or else in tokens."""
    for name in COSTS:
        means = [_means(trials, name) for trials in (first, second)]
        if all(case in known for known in means for case in shared):
            found = relative_change(*([known[case] for case in shared] for known in means))
            if found is not None:
                return found.rounded()
    return None


def _means(trials: Sequence[CaseAttempt], name: str) -> dict[str, float]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for one in trials:
        value = cast("float | None", getattr(one, name))
        if one.passed is not None and value is not None:
            found[one.case].append(value)
    return {case: fmean(values) for case, values in found.items()}


def _sentence(first: str, second: str, change: Interval, needed: int) -> str:
    between = _between(change)
    if not change.holds_zero:
        word = "better" if change.value > 0 else "worse"
        return f"{second!r} is {word} than {first!r}: {points(change.value)} points, {between}"
    least = max(abs(change.value), NOTABLE)
    return (
        f"can't tell {first!r} and {second!r} apart ({between}); to see a difference of {100 * least:.0f} points,"
        f" about {count_text(needed, 'case')} would be needed"
    )


def _ablation(name: str, change: Interval, cost: Interval | None, cases: int) -> str:
    """Say what a team without a part costs, and whether that shows in its passes: `change` is without minus with."""
    price = "costs the same"
    if cost is not None and abs(cost.value) >= SHOWN:
        ends = sorted((abs(cost.low), abs(cost.high))) if cost.low * cost.high > 0 else [cost.low, cost.high]
        word = "cheaper" if cost.value < 0 else "dearer"
        price = f"{100 * abs(cost.value):.0f} % {word} [{100 * ends[0]:.0f} to {100 * ends[1]:.0f}]"
    if not change.holds_zero:
        word = "fewer" if change.value < 0 else "more"
        return f"{name}: {price}, passes {100 * abs(change.value):.0f} points {word} ({_between(change)})"
    if change.value < 0:
        fewer = f"passes {-100 * change.value:.0f} points fewer"
        return f"{name}: {price}, {fewer}, which chance may explain ({_between(change)})"
    found = f"{name}: {price}, no loss found in {count_text(cases, 'case')}"
    return found if -change.low < NOTABLE else f"{found}, which could be up to {-100 * change.low:.0f} points"


def _between(change: Interval) -> str:
    return f"{points(change.low)} to {points(change.high)} points"


def points(share: float) -> str:
    """A difference of rates in points, with its sign."""
    return f"{100 * share:+.0f}".replace("+0", "0").replace("-0", "0")


def judge_report(labels: Sequence[JudgedLabel]) -> JudgeReport:
    """Measure a judge by labelled answers."""
    pairs = [(one.label, one.passed) for one in labels]
    turned = [one for one in labels if one.reversed_passed is not None]
    changed = sum(one.passed != one.reversed_passed for one in turned)
    agreed = kappa(pairs)
    authors = dict.fromkeys(one.author for one in labels if one.author)
    return JudgeReport(
        labels=len(labels),
        agreement=wilson(sum(label == passed for label, passed in pairs) / len(pairs), len(pairs)).rounded(),
        kappa=None if agreed is None else round(agreed, 4),
        passes_bad=_share(labels, good=False),
        fails_good=_share(labels, good=True),
        order_changes=wilson(changed / len(turned), len(turned)).rounded() if turned else None,
        authors=tuple(_author(name, labels) for name in authors) if len(authors) > 1 else (),
    )


def _author(name: str, labels: Sequence[JudgedLabel]) -> AuthorBias:
    own = [one for one in labels if one.author == name]
    return AuthorBias(
        author=name, answers=len(own), passes_bad=_share(own, good=False), fails_good=_share(own, good=True)
    )


def _share(labels: Sequence[JudgedLabel], *, good: bool) -> float | None:
    """The share of good, or of bad, answers of which the judge says the opposite."""
    own = [one for one in labels if one.label == good]
    return round(sum(one.passed != good for one in own) / len(own), 4) if own else None


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
    return "\n\n".join([_aligned(_variants(report)), *findings_of(report), *_groups_text(report)])


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


def _groups_text(report: ExperimentReport) -> Iterator[str]:
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
    groups = "".join(f"<pre>{escape(text)}</pre>" for text in _groups_text(report))
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
