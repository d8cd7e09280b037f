"""Rates experts and templates by their past work: how often it passed, after how many revisions, at what price.

It reads events alone. What a fork inherited counts in the run that it was done in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from pydantic import JsonValue

from teamwright.errors import JournalCorrupt, UsageError
from teamwright.history.kpi_gates import lower_bound
from teamwright.history.kpis import TurnFigures, turns_of
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.codec import decode_body
from teamwright.journal.protocol import Journal
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.key import join_key, parent_key, without_attempts
from teamwright.values.limits import NOTHING, Usage
from teamwright.values.specs.evaluation import JUDGED, PASSED, EvaluationVerdict
from teamwright.values.value import Record


@dataclass(frozen=True, slots=True)
class RatedWork:
    """A piece of work with all its attempts. `verdict` is that on the last one, if it was evaluated.

    `usage` is what its author used, and `judging` what its evaluators did.
    """

    member: str
    template: str
    attempts: int
    failed: bool
    verdict: EvaluationVerdict | None
    usage: Usage
    judging: Usage

    @property
    def is_judged(self) -> bool:
        """Whether an evaluator said whether it is good."""
        return self.verdict is not None and self.verdict.outcome in JUDGED

    @property
    def is_unreviewed(self) -> bool:
        """Whether its review broke off."""
        return self.verdict is not None and not self.is_judged and self.verdict.outcome != "not_reviewed"

    @property
    def is_assumed(self) -> bool:
        """Whether it ended well without a review, so that it is only assumed to be good."""
        return not (self.failed or self.is_judged or self.is_unreviewed)

    @property
    def score(self) -> float:
        """The score of its verdict."""
        return (self.verdict.score if self.verdict is not None else None) or 0.0

    @property
    def is_passed(self) -> bool:
        """Whether an evaluator passed it."""
        return self.verdict is not None and self.verdict.outcome in PASSED


class RunWork(NamedTuple):
    """The pieces of work in a run, and the run of which it is a branch."""

    parent: str
    pieces: list[RatedWork]


async def read_work(journal: Journal, run_id: str) -> RunWork:
    """Return the pieces of work that members did in a run.

    A team that worked as a child run is none of its members: their work is in the child.
    """
    events = await journal.read(run_id)
    started = next((event.fact for event in events if isinstance(event.fact, RunStarted)), None)
    if started is None:
        return RunWork("", [])
    source = decode_body((await journal.bodies([started.manifest]))[started.manifest])
    manifest = _fields(_fields(source).get("manifest"))
    teams = _fields(manifest.get("teams")).keys() - _fields(manifest.get("agents")).keys()
    pieces = [one for one in work_in(events, templates_in(source)) if one.member not in teams]
    return RunWork(started.parent, pieces)


def templates_in(source: JsonValue) -> dict[str, str]:
    """Return the template of each expert that a recorded team declares."""
    found: dict[str, str] = {}
    for name, agent in _fields(_fields(_fields(source).get("manifest")).get("agents")).items():
        template = _fields(_fields(agent).get("expert")).get("template")
        if isinstance(template, str):
            found[name] = template
    return found


def _fields(value: JsonValue) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", value) if isinstance(value, dict) else {}


def work_in(events: Sequence[Event], templates: Mapping[str, str]) -> list[RatedWork]:
    """Return the pieces of work in these events; work that was stopped or is open is none yet."""
    turns = {without_attempts(turn.key): turn for turn in turns_of(events)}
    results = _results(events)
    inherited = RunRecord.from_events(events).inherited
    ended = {event.key: event.number for event in events if event.kind in ("agent.replied", "agent.failed")}
    return [
        _work(turn, place, turns, results, templates)
        for place, turn in turns.items()
        if turn.purpose == "work" and not turn.revised and turn.status in ("passed", "failed")
        if max(ended.get(turn.key, 0), results[place].number if place in results else 0) > inherited
    ]


def _results(events: Sequence[Event]) -> dict[str, Event]:
    """Return the last verdict on each attempt, by its place."""
    return {
        without_attempts(join_key(event.scope, event.fact.work)): event
        for event in events
        if isinstance(event.fact, TeamEvaluationResult)
    }


def _work(
    last: TurnFigures,
    place: str,
    turns: Mapping[str, TurnFigures],
    results: Mapping[str, Event],
    templates: Mapping[str, str],
) -> RatedWork:
    """Collect the attempts at a piece of work, from the last one to the first."""
    used, judged, attempts = last.usage, NOTHING, 1
    event = results.get(place)
    verdict = event.fact.verdict if event is not None and isinstance(event.fact, TeamEvaluationResult) else None
    while event is not None and isinstance(event.fact, TeamEvaluationResult):
        evaluation = turns.get(without_attempts(parent_key(event.key)))
        judged += evaluation.usage if evaluation is not None else NOTHING
        before = without_attempts(join_key(event.scope, event.fact.revises)) if event.fact.revises else ""
        if before in turns:
            used += turns[before].usage
            attempts += 1
        event = results.get(before)
    return RatedWork(
        member=last.member,
        template=templates.get(last.member, ""),
        attempts=attempts,
        failed=last.status == "failed",
        verdict=verdict,
        usage=used,
        judging=judged,
    )


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
