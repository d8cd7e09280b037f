"""Reads the pieces of work in a recorded run: who did them, in how many attempts, with which verdict, at what price.

It reads events alone. What a fork inherited counts in the run that it was done in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from pydantic import JsonValue

from teamwright.history.kpis import TurnFigures, turns_of
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.codec import decode_body
from teamwright.journal.protocol import Journal
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.key import join_key, parent_key, without_attempts
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.verdicts import JUDGED, PASSED, EvaluationVerdict


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
