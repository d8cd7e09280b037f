"""What a journal holds for experiments: recorded runs as cases, and reports of experiments.

A case is the task of a run, its answer, and the last verdict on it as its label; a person who accepted or stopped work
has the last word. Nothing is run, and a record that can't be read is left out. A report is the reply of a run of its
own, so that the page and others find it, and is never changed; an experiment that has gone on has another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec import ValidationError, convert
from pydantic_core import to_json

from teamwright.agents.agent import Agent, Context
from teamwright.errors import JournalError, RunError, RunNotFound
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.history.run_history import RunHistory
from teamwright.journal.run_filter import RunFilter
from teamwright.lab.experiments.blame import PREFIX as BLAME
from teamwright.lab.experiments.dataset import Case
from teamwright.lab.experiments.experiment import PREFIX, PREFIX as EVAL
from teamwright.lab.experiments.grades import GRADING
from teamwright.lab.experiments.report import ExperimentReport, text_of
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import FINAL, RunSummary
from teamwright.values.turns.turn import PASSED, Reply, Turn
from teamwright.values.value import Record

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal


FAILED = frozenset(("revise", "review_exceeded"))


def is_experimental(run_id: str) -> bool:
    """Whether a run was made to measure a team or to find a fault, so that its task is that of another run or case."""
    return run_id.startswith((f"{EVAL}-", f"{BLAME}-"))


async def recorded_cases(engine: Engine, run_ids: Sequence[str]) -> tuple[list[Case], dict[str, str]]:
    """Return a case for each run that has ended, and why others can't be read."""
    found: list[Case] = []
    left_out: dict[str, str] = {}
    for run_id in run_ids:
        try:
            result, history = await engine.runs.result(run_id), await engine.runs.history(run_id)
        except (JournalError, RunError) as error:
            left_out[run_id] = str(error)
            continue
        if history.started.team == GRADING:
            continue
        if result.status in FINAL:
            found.append(_case(run_id, history, result.output))
    return found, left_out


def _case(run_id: str, history: RunHistory, output: str | None) -> Case:
    label, author = last_verdict(history.events)
    known = output if label is not None and output else None
    return Case(
        id=run_id,
        task=history.task,
        output=known,
        label=label if known is not None else None,
        author=author if known is not None else "",
        tags=(history.started.team,),
    )


def last_verdict(events: Sequence[Event]) -> tuple[Literal["pass", "fail"] | None, str]:
    """The last verdict on work of a run, and whose work it was; none if nothing was judged."""
    for event in reversed(events):
        if isinstance(event.fact, TeamEvaluationResult):
            outcome = event.fact.verdict.outcome
            label = "pass" if outcome in PASSED else "fail" if outcome in FAILED else None
            return label, event.fact.member
    return None, ""


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
