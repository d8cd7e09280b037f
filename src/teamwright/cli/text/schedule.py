"""A schedule as text: a table of its tasks, and a drawing of its batches. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from teamwright.cli.terminal.output import one_line
from teamwright.cli.text.table import columns
from teamwright.strategies.plan.planner import Prepared
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.display import NOTHING, count_text, cut, number_text

WIDTH = 80
TOKENS_COLUMN = 62
WIDEST = 24
MOST_ROWS = 60
MOST_DRAWN = 30
MOST_OF_PATH = 12
CRITICAL, OTHER = "◆", "●"


def schedule_text(prepared: Prepared, plan: Plan) -> str:
    """A schedule as a summary line, a table and a drawing."""
    return "\n\n".join([_summary(prepared), _table(prepared, plan), _drawing(prepared), _legend(prepared)])


def _summary(prepared: Prepared) -> str:
    figures, schedule, limit = prepared.diagnostics, prepared.schedule, prepared.settings.run_budget
    batches = f"{number_text(figures.batch_count)} batch{'' if figures.batch_count == 1 else 'es'}"
    return (
        f"{count_text(figures.task_count, 'task')} in {batches}, at most {figures.max_parallelism} at once"
        f" and {round(figures.mean_parallelism, 2):g} on average · {number_text(schedule.total_tokens)}"
        f"{'' if limit is None else f' of {number_text(limit)}'} tokens"
    )


def _table(prepared: Prepared, plan: Plan) -> str:
    schedule = prepared.schedule
    steps = {step.id: step for step in plan.steps}
    budgets = {budget.task: budget for budget in schedule.budgets}
    rows = [("BATCH", "TASK", "AGENT", "NEEDS", "OWNS", "WORK", "TALK", "WHAT")]
    for batch in schedule.batches:
        for task in batch.tasks[: MOST_ROWS + 1 - len(rows)]:
            budget = budgets[task]
            rows.append((
                str(batch.index), task, *_cells(steps[task]), number_text(budget.execution),
                number_text(budget.coordination), _short(one_line(steps[task].task or "")),
            ))  # fmt: skip
    kept = [place for place in range(len(rows[0])) if any(row[place] not in {NOTHING, ""} for row in rows[1:])]
    shown = columns([[row[place] for place in kept] for row in rows])
    more = len(schedule.order) - len(rows) + 1
    return f"{shown}\n… and {count_text(more, 'task')} more; --json has them all" if more else shown


def _cells(step: Step) -> tuple[str, str, str]:
    return step.assignee or NOTHING, _short(", ".join(step.needs)), _short(", ".join(step.owns))


def _short(text: str) -> str:
    text = one_line(text)
    return cut(text, WIDEST) if text else NOTHING


def _drawing(prepared: Prepared) -> str:
    """The batches from top to bottom, with the tasks of the critical path marked."""
    critical = set(prepared.diagnostics.critical_path)
    lines: list[str] = []
    batches = prepared.schedule.batches
    margin = len(str(min(len(batches), MOST_DRAWN) - 1)) + 2
    for batch in batches[:MOST_DRAWN]:
        if lines:
            lines.append(" " * margin + "↓")
        marked = [f"{CRITICAL if task in critical else OTHER} {task}" for task in batch.tasks]
        first, *rest = _wrapped(marked, TOKENS_COLUMN - margin - 2)
        tokens = count_text(batch.tokens, "token")
        lines.append((str(batch.index).ljust(margin) + first).ljust(TOKENS_COLUMN) + tokens)
        lines += [" " * margin + line for line in rest]
    if len(batches) > MOST_DRAWN:
        lines.append(f"… and {number_text(len(batches) - MOST_DRAWN)} more batches")
    return "\n".join(line.rstrip() for line in lines)


def _wrapped(tasks: Sequence[str], width: int) -> Iterator[str]:
    """Tasks wrapped into lines; a mark is never separated from its task."""
    line = ""
    for task in tasks:
        if line and len(line) + 3 + len(task) > width:
            yield line
            line = ""
        line += ("   " if line else "") + task
    yield line


def _legend(prepared: Prepared) -> str:
    path = prepared.diagnostics.critical_path
    shown = [*path[:MOST_OF_PATH], "…"] if len(path) > MOST_OF_PATH else path
    text = f"{CRITICAL} critical path, {count_text(len(path), 'step')}: {' → '.join(shown)}"
    envelopes = (
        f"{count_text(len(prepared.envelopes), 'envelope')} to the workers, about"
        f" {count_text(prepared.envelope_tokens, 'token')}"
    )
    return "\n".join([*textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False), envelopes])
