"""Figures of all runs over time, by day, team and model.

Runs, tokens and cost come from the list of runs, by its index. Steps and models are only in the events of a run: they
are read once for each run that has ended, the newest first, and for a moment at a time, so that no request waits long.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

import anyio
from pydantic import BaseModel

from teamwright.errors import TeamwrightError
from teamwright.history.kpis import kpis_of
from teamwright.journal.run_filter import RunFilter
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event, fold
from teamwright.values.turns.results import FINAL, RunSummary
from teamwright.values.usage_and_prices import NOTHING, Usage

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

PAGE, MOST_RUNS = 1000, 20_000
"""How many runs are listed at a time, and in all."""
MOST_MEASURED = 1000
"""How many of the newest runs are measured by their events."""
READ_SECONDS = 1.0
"""How long one request reads events; the next one goes on."""


class TeamDay(BaseModel):
    """The runs of a team that began on a day, in UTC.

    `usd` is what is known of their cost: `unpriced` runs used tokens and have no price. `steps`, `passed` and `judged`
    are those of the `measured` runs.
    """

    day: str
    team: str
    runs: int = 0
    ended: int = 0
    completed: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    measured: int = 0
    steps: int = 0
    passed: int = 0
    judged: int = 0


class ModelDay(BaseModel):
    """What the measured runs of a team that began on a day asked of a model."""

    day: str
    team: str
    model: str
    requests: int = 0
    tokens: int = 0
    usd: float | None = None


class FiguresOverTime(BaseModel):
    """Figures by day. `is_cut` says that older runs of this time are left out.

    `unread` runs are not measured yet: the same request goes on with them.
    """

    since: str
    until: str
    runs: int
    is_cut: bool
    measured: int
    unread: int
    teams: list[TeamDay]
    models: list[ModelDay]


@dataclass(frozen=True, slots=True)
class _Measured:
    """What the events of one run say beside its row in the list."""

    steps: int = 0
    passed: int = 0
    judged: int = 0
    models: dict[str, Usage] = field(default_factory=dict[str, Usage])


class DailyFigures:
    """Adds up the runs of a journal; what was read of a run that has ended is remembered, since it can't change."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._measured: dict[str, _Measured] = {}
        self._reading = anyio.Lock()

    async def read(self, days: int) -> FiguresOverTime:
        """Return the figures of the last days, up to today."""
        today = datetime.now(UTC).date()
        since = (today - timedelta(days=days - 1)).isoformat()
        runs, is_cut = await self._runs(since)
        newest = [one for one in runs if one.status in FINAL and one.damage is None][:MOST_MEASURED]
        async with self._reading:
            unread = await self._measure([one.id for one in newest])
        return FiguresOverTime(
            since=since,
            until=today.isoformat(),
            runs=len(runs),
            is_cut=is_cut,
            measured=len(newest) - unread,
            unread=unread,
            teams=self._by_team(runs),
            models=self._by_model(runs),
        )

    async def _runs(self, since: str) -> tuple[list[RunSummary], bool]:
        """Return the runs since a day, the newest first, and whether there are more."""
        found: list[RunSummary] = []
        after: str | None = None
        while len(found) < MOST_RUNS:
            page = await self._journal.top_runs(PAGE, RunFilter(after=after))
            found += [one for one in page if one.started_at >= since]
            if len(page) < PAGE or page[-1].started_at < since:
                return found, False
            after = page[-1].id
        return found, True

    async def _measure(self, run_ids: Sequence[str]) -> int:
        """Read the events of some runs, as long as a request may; return how many are left."""
        left = [one for one in run_ids if one not in self._measured]
        until = monotonic() + READ_SECONDS
        while left and monotonic() < until:
            run_id = left.pop(0)
            found = _Measured()
            with suppress(TeamwrightError):  # deleted meanwhile, or a record that can't be read
                events = await self._journal.read(run_id)
                found = await anyio.to_thread.run_sync(_measured, events) if events else found
            self._measured[run_id] = found
        if len(self._measured) > 2 * MOST_MEASURED:
            self._measured = {one: self._measured[one] for one in run_ids if one in self._measured}
        return len(left)

    def _by_team(self, runs: Sequence[RunSummary]) -> list[TeamDay]:
        found: dict[tuple[str, str], TeamDay] = {}
        for run in runs:
            key = run.started_at[:10], run.team
            row = found.setdefault(key, TeamDay(day=key[0], team=key[1]))
            row.runs += 1
            row.ended += run.status in FINAL
            row.completed += run.status == "completed"
            row.tokens += run.total_tokens
            row.usd += run.usd or 0.0
            row.unpriced += run.usd is None and run.total_tokens > 0
            if (measured := self._measured.get(run.id)) is not None:
                row.measured += 1
                row.steps += measured.steps
                row.passed += measured.passed
                row.judged += measured.judged
        return [found[key] for key in sorted(found)]

    def _by_model(self, runs: Sequence[RunSummary]) -> list[ModelDay]:
        found: defaultdict[tuple[str, str, str], Usage] = defaultdict(lambda: NOTHING)
        for run in runs:
            for model, usage in (self._measured.get(run.id) or _Measured()).models.items():
                found[run.started_at[:10], run.team, model] += usage
        return [
            ModelDay(day=day, team=team, model=model, requests=one.requests, tokens=one.total_tokens, usd=one.usd)
            for (day, team, model), one in sorted(found.items(), key=lambda item: item[0])
        ]


def _measured(events: Sequence[Event]) -> _Measured:
    kpis = kpis_of(events)
    return _Measured(kpis.steps, kpis.passed, kpis.judged, fold(events, _ModelFold()).models())


class _ModelFold:
    """Folds what each model was asked for."""

    def __init__(self) -> None:
        self._called: dict[str, str] = {}
        self._used: defaultdict[str, Usage] = defaultdict(lambda: NOTHING)
        self._requests: Counter[str] = Counter()

    def apply(self, event: Event) -> None:
        match event.fact:
            case AgentCalled(effect="model", name=name):
                self._called[event.key] = name
                self._requests[name] += 1
            case AgentReturned(usage=usage) | AgentCallFailed(usage=usage):
                if (model := self._called.get(event.key)) is not None:
                    self._used[model] += usage
            case _:
                pass

    def models(self) -> dict[str, Usage]:
        return {name: self._used[name].changed(requests=count) for name, count in self._requests.items()}
