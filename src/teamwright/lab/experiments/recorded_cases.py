"""Cases from recorded runs: their tasks, their answers, and the last verdict on each as its label.

A person who accepted or stopped work has the last word. Nothing is run, and a record that can't be read is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from teamwright.errors import JournalError, RunError
from teamwright.history.run_history import RunHistory
from teamwright.lab.experiments.blame import PREFIX as BLAME
from teamwright.lab.experiments.dataset import Case
from teamwright.lab.experiments.experiment import PREFIX as EVAL
from teamwright.lab.experiments.grades import GRADING
from teamwright.runtime.engine import Engine
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.turns.results import FINAL
from teamwright.values.turns.verdicts import PASSED

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
