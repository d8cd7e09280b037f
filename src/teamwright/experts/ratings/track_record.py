"""Rates experts and templates by their past work: how often it passed, after how many revisions, at what price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from teamwright.errors import JournalCorrupt, UsageError
from teamwright.experts.ratings.work import RatedWork, read_work
from teamwright.history.kpi_gates import lower_bound
from teamwright.journal.protocol import Journal
from teamwright.values.limits.usage import NOTHING
from teamwright.values.models import Record

DIGITS = 4


class Rating(Record, frozen=True):
    """The work of one expert, or of all experts of one template.

    `pass_rate` is the share of judged work that passed, `first_time` that which passed without a revision, and
    `at_least` the pass rate that is certain with 95 %. `unreviewed` counts work whose review broke off, and `assumed`
    work that ended well without a review. Prices are None where none is known.
    """

    name: str
    template: str
    runs: int
    steps: int
    failed: int
    judged: int
    passed: int
    unreviewed: int
    assumed: int
    pass_rate: float | None
    at_least: float | None
    first_time: float | None
    revisions: float | None
    score: float | None
    total_tokens: int
    usd: float | None
    judge_tokens: int
    judge_usd: float | None
    tokens_per_pass: int | None
    usd_per_pass: float | None


@dataclass(frozen=True, slots=True)
class Ratings:
    """The ratings of experts and of templates, the best first, and the runs that could not be read."""

    runs: int
    experts: tuple[Rating, ...]
    templates: tuple[Rating, ...]
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    def to_json(self) -> dict[str, JsonValue]:
        """As data."""
        return {
            "runs": self.runs,
            "experts": [one.to_json() for one in self.experts],
            "templates": [one.to_json() for one in self.templates],
            "left_out": dict[str, JsonValue](self.left_out),
        }


async def rate_runs(journal: Journal, run_ids: Sequence[str]) -> Ratings:
    """Read runs, and rate the members that worked in them; a run whose record is damaged is left out.

    The members of a team that worked in a child run count in its parent, if the parent comes first.
    """
    by_run: dict[str, list[RatedWork]] = {}
    owners: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for run_id in run_ids:
        try:
            found = await read_work(journal, run_id)
            owner = owners[run_id] = owners.get(found.parent, run_id)
            by_run.setdefault(owner, []).extend(found.pieces)
        except (UsageError, JournalCorrupt) as error:
            left_out[run_id] = str(error)
    return rate_work(by_run, left_out)


def rate_work(by_run: Mapping[str, Iterable[RatedWork]], left_out: Mapping[str, str] | None = None) -> Ratings:
    """Rate the members that did this work, which is given by run."""
    experts: defaultdict[tuple[str, str], list[tuple[str, RatedWork]]] = defaultdict(list)
    templates: defaultdict[str, list[tuple[str, RatedWork]]] = defaultdict(list)
    for run_id, pieces in by_run.items():
        for work in pieces:
            experts[work.member, work.template].append((run_id, work))
            if work.template:
                templates[work.template].append((run_id, work))
    return Ratings(
        runs=len(by_run),
        experts=_ranked(_rating(name, template, found) for (name, template), found in experts.items()),
        templates=_ranked(_rating(name, name, found) for name, found in templates.items()),
        left_out=left_out or {},
    )


def _ranked(ratings: Iterable[Rating]) -> tuple[Rating, ...]:
    """The best first: by the pass rate that is certain, and what was never judged last."""
    return tuple(sorted(ratings, key=lambda one: (one.at_least is None, -(one.at_least or 0.0), -one.steps, one.name)))


def _rating(name: str, template: str, found: Sequence[tuple[str, RatedWork]]) -> Rating:
    pieces = [work for _, work in found]
    judged = [work for work in pieces if work.is_judged]
    passed = [work for work in judged if work.is_passed]
    used = sum((work.usage for work in pieces), NOTHING)
    judging = sum((work.judging for work in pieces), NOTHING)
    on_judged = sum((work.usage + work.judging for work in judged), NOTHING)
    return Rating(
        name=name,
        template=template,
        runs=len({run_id for run_id, _ in found}),
        steps=len(pieces),
        failed=sum(work.failed for work in pieces),
        judged=len(judged),
        passed=len(passed),
        unreviewed=sum(work.is_unreviewed for work in pieces),
        assumed=sum(work.is_assumed for work in pieces),
        pass_rate=_share(len(passed), len(judged)),
        at_least=round(lower_bound(len(passed), len(judged)), DIGITS) if judged else None,
        first_time=_share(sum(work.attempts == 1 for work in passed), len(judged)),
        revisions=_share(sum(work.attempts - 1 for work in judged), len(judged)),
        score=_share(sum(work.score for work in judged), len(judged)),
        total_tokens=used.total_tokens,
        usd=used.usd,
        judge_tokens=judging.total_tokens,
        judge_usd=judging.usd,
        tokens_per_pass=round(on_judged.total_tokens / len(passed)) if passed else None,
        usd_per_pass=round(on_judged.usd / len(passed), 6) if passed and on_judged.usd is not None else None,
    )


def _share(part: float, whole: int) -> float | None:
    return round(part / whole, DIGITS) if whole else None
