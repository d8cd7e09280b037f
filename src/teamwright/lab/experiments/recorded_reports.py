"""Reports of experiments in the journal: each is the reply of a run of its own, so that the page and others find it.

A report is recorded as it was computed, and never changed; an experiment that has gone on has another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import ValidationError, convert
from pydantic_core import to_json

from teamwright.agents.contract.agent import Agent, Context
from teamwright.errors import JournalError, RunNotFound
from teamwright.history.record.asks import RecordedBodies
from teamwright.journal.run_filter import RunFilter
from teamwright.lab.experiments.experiment import PREFIX
from teamwright.lab.experiments.report import ExperimentReport
from teamwright.lab.experiments.report_text import text_of
from teamwright.teams.team import Team
from teamwright.values.events.run import RunStarted
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import FINAL, RunSummary
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.value import Record

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine

TEAM, REPORT, DIGITS = "experiment", f"{PREFIX}-report-", 10


class RecordedReport(Record, frozen=True):
    """A report in a list of reports."""

    run_id: str
    title: str
    started_at: str


@dataclass(frozen=True, slots=True)
class Reporter(Agent):
    """Replies with a report, as text and as data."""

    report: ExperimentReport
    name: str = "report"
    kind: str = "report"

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Return the report."""
        return Reply.of(self.name, text_of(self.report), data=self.report.to_json())


async def record_report(engine: Engine, report: ExperimentReport, title: str) -> str:
    """Record a report, unless it is recorded already; returns the id of its run."""
    run_id = f"{REPORT}{digest(title, to_json(report.to_json()).decode())[:DIGITS]}"
    team, known = Team(TEAM, members=[Reporter(report)], checked=True), await engine.journal.find(run_id)
    if known is None:
        await engine.run(team, title, run_id=run_id)
    elif known.status not in FINAL:  # the process ended while it was recorded
        await engine.resume(run_id, team=team)
    return run_id


async def recorded_reports(journal: Journal, limit: int) -> list[RecordedReport]:
    """Return the newest reports, without those that can't be read."""
    runs = await journal.top_runs(limit, RunFilter(team=TEAM, status="completed"))
    found = [await _listed(journal, run) for run in runs if run.id.startswith(REPORT)]
    return [one for one in found if one is not None]


async def _listed(journal: Journal, run: RunSummary) -> RecordedReport | None:
    try:
        start = next(one.fact for one in await journal.read(run.id) if isinstance(one.fact, RunStarted))
        title = RecordedBodies(await journal.bodies({start.task})).value(start.task)
    except (JournalError, StopIteration):
        return None
    return RecordedReport(run_id=run.id, title=str(title), started_at=run.started_at)


async def read_report(engine: Engine, run_id: str) -> ExperimentReport:
    """Return a recorded report; raises `RunNotFound` if this run has none."""
    try:
        return convert((await engine.runs.result(run_id)).data, ExperimentReport)
    except ValidationError as error:
        raise RunNotFound(run_id) from error
