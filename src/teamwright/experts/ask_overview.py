"""What `teamwright ask` says of a team that it formed: who is in it, its plan, its review, and who judged the answer.

All of it is read from the source of the team and from the record of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from pydantic import JsonValue

from teamwright.cli.terminal.output import clean, columns
from teamwright.cli.terminal.result_wording import formation_rows
from teamwright.experts.formation import PART_ID
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.registry import find_strategy
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.specs.manifest import Source
from teamwright.values.turns.verdicts import EvaluationVerdict

LABEL = 10
"""The width of the first column."""


def overview(source: Source) -> str:
    """Return a formed team as lines: its experts, its plan, its review, and warnings about how it was formed."""
    if source.formation is None:
        return _labelled("agent", [f"{source.team} answers alone"])
    spec = source.manifest.teams[source.team]
    model = cast("type[PlanOptions]", find_strategy(spec.strategy).options)
    options = model.model_validate(spec.options)
    parts = {
        "team": columns(formation_rows(source)).split("\n"),
        "plan": list(_plan(options)),
        "review": [_review(options)],
        "warning": list(source.formation.warnings),
    }
    return clean("\n".join(_labelled(name, lines) for name, lines in parts.items() if lines))


def _labelled(name: str, lines: Sequence[str]) -> str:
    return "\n".join(f"{'' if number else name:<{LABEL}}{line}" for number, line in enumerate(lines))


def _plan(options: PlanOptions) -> Iterator[str]:
    """Yield what is done, in order."""
    if not options.steps:
        yield f"{options.lead} plans the steps, hands them out, and answers"
        return
    *first, last = options.steps
    if first:
        verb = "work on the task at once" if len(first) > 1 else "works on the task"
        yield f"1  {', '.join(str(step.role) for step in first)} {verb}"
    yield f"2  {last.role} puts the results together into the answer" if first else f"1  {last.role} answers"


def _review(options: PlanOptions) -> str:
    """Return what is reviewed, by whom, by how many criteria, and how often it may be revised."""
    declared = next((step.evaluate for step in options.steps if step.evaluate is not None), options.evaluate)
    if declared is None or not declared.reviews:
        return "none"
    what = "the answer" if options.steps else "each step and the answer"
    asked = [one.id for one in declared.criteria if one.judge is not None]
    parts = sum(one.startswith(PART_ID) for one in asked)
    of_task = f", {parts} of them parts of the task" if parts else ""
    most = declared.revisions
    again = "one revision" if most == 1 else f"{most} revisions"
    return f"{what}, by {declared.judge}: {len(asked)} criteria{of_task}; at most {again}"


class RunReview(NamedTuple):
    """Who judged the work of a run, how often, and the last verdict; without a judge it is not reviewed."""

    judges: tuple[str, ...]
    author: str
    attempts: int
    verdict: EvaluationVerdict | None = None

    def __str__(self) -> str:
        if self.verdict is None or not self.judges or self.verdict.outcome == "auto_pass_with_warning":
            why = f": {self.verdict.feedback}" if self.verdict is not None and self.verdict.feedback else ""
            return f"not reviewed{why}"
        passed = sum(one.passed for one in self.verdict.criteria)
        word = "passes" if self.verdict.outcome == "pass" else "does not pass"
        again = f" in attempt {self.attempts}" if self.attempts > 1 else ""
        text = f"{' and '.join(self.judges)} judged the answer of {self.author}: it {word}{again}"
        return clean(f"{text}, {passed} of {len(self.verdict.criteria)} criteria, score {self.verdict.score or 0:.2f}")

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "judges": list(self.judges),
            "author": self.author,
            "attempts": self.attempts,
            "outcome": "not_reviewed" if self.verdict is None else self.verdict.outcome,
            "score": None if self.verdict is None else self.verdict.score,
        }


def review_of_run(events: Sequence[Event]) -> RunReview:
    """Return the last review in the record of a run."""
    results = [event.fact for event in events if isinstance(event.fact, TeamEvaluationResult)]
    last = next((one for one in reversed(results) if one.verdict.outcome != "not_reviewed"), None)
    if last is None:
        return RunReview((), "", 0)
    judges = tuple(dict.fromkeys(one.member for one in last.verdict.judges))
    return RunReview(judges, last.member, last.attempt, last.verdict)
