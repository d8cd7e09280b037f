"""The tables of runs, and of the child runs of one: which columns there are, and what a cell says."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import columns, one_line
from teamwright.values.text.display import NOTHING, cut, number_text, price_text, seconds_text

if TYPE_CHECKING:
    from teamwright.values.turns.results import RunSummary

RUN_HEADS = ("RUN", "TEAM", "STATUS", "STARTED", "TIME", "TOKENS", "PRICE")
WIDEST_TEAM = 24


def run_table(
    runs: Sequence[RunSummary],
    answered: Collection[str] = (),
    children: Mapping[str, Sequence[RunSummary]] | None = None,
) -> str:
    """One line per run, in columns; `answered` are paused runs whose questions are all answered.

    `children` are child runs by the id of their parent. A column that would be empty is left out.
    """
    families = children or {}
    lines = [RUN_HEADS, *(_run_cells(run, answered=run.id in answered) for run in runs)]
    for head, texts in (
        ("RESUMES", [run.resume_at and time_text(run.resume_at) for run in runs]),
        ("CHILDREN", [_children_text(families.get(run.id, ())) for run in runs]),
        ("PARENT", [run.parent for run in runs]),
        ("CONVERSATION", [run.conversation for run in runs]),
    ):
        if any(texts):
            column = (head, *(one_line(text) or NOTHING for text in texts))
            lines = [(*line, cell) for line, cell in zip(lines, column, strict=True)]
    return columns(lines)


def _children_text(children: Sequence[RunSummary]) -> str:
    """How many children a run has, and how many of them wait for a person."""
    paused = sum(child.status == "paused" for child in children)
    return f"{len(children)}{f' ({paused} paused)' if paused else ''}" if children else ""


def children_table(children: Sequence[RunSummary]) -> str:
    """One line per child run, in columns: who drove it, and how it went."""
    lines: list[Sequence[str]] = [("RUN", "MEMBER", "WORKER", "STATUS", "TIME", "TOKENS", "PRICE")]
    for child in children:
        run, member, status, _, *figures = _run_cells(child, answered=False)
        lines.append((run, member, one_line(child.driver) or NOTHING, status, *figures))
    return columns(lines)


def time_text(time: str) -> str:
    """A recorded time in the user's time zone, to the minute."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M") if time else NOTHING


def _run_cells(run: RunSummary, *, answered: bool) -> tuple[str, ...]:
    team = cut(run.team, WIDEST_TEAM)
    reason = f" ({run.stop_reason})" if run.stop_reason and run.stop_reason not in {"done", run.status} else ""
    reason = " (answered)" if answered else reason
    status = "unreadable" if run.damage else f"{run.status}{reason}"
    price = NOTHING if run.usd is None else price_text(run.usd)
    return (
        one_line(run.id),
        one_line(team),
        status,
        time_text(run.started_at),
        seconds_text(run.seconds),
        number_text(run.total_tokens),
        price,
    )
