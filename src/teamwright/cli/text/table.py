"""Runs as a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import cast, get_args

from teamwright.cli.terminal.output import one_line
from teamwright.cli.text.events import price_text, seconds_text
from teamwright.errors import UnknownName
from teamwright.values.results import RunSummary, Status
from teamwright.values.text.display import NOTHING, cut, number_text

HEADS = ("RUN", "TEAM", "STATUS", "STARTED", "TIME", "TOKENS", "PRICE")
WIDEST_TEAM = 24


def check_statuses(names: Sequence[str] | None) -> tuple[Status, ...]:
    """Return the statuses with these names, or reject an unknown one."""
    known = get_args(Status)
    for name in names or ():
        if name not in known:
            raise UnknownName("status", name, known)
    return cast("tuple[Status, ...]", tuple(names or ()))


def table(runs: Sequence[RunSummary], answered: Collection[str] = ()) -> str:
    """One line per run, in columns; `answered` are paused runs whose questions are all answered."""
    return columns([HEADS, *(_cells(run, answered=run.id in answered) for run in runs)])


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells as text with aligned columns."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cells(run: RunSummary, *, answered: bool) -> tuple[str, ...]:
    team = cut(run.team, WIDEST_TEAM)
    reason = f" ({run.stop_reason})" if run.stop_reason and run.stop_reason not in {"done", run.status} else ""
    reason = " (answered)" if answered else reason
    status = "unreadable" if run.damage else f"{run.status}{reason}"
    started = (
        datetime.fromisoformat(run.started_at).astimezone().strftime("%Y-%m-%d %H:%M") if run.started_at else NOTHING
    )
    price = NOTHING if run.usd is None else price_text(run.usd)
    return (
        one_line(run.id),
        one_line(team),
        status,
        started,
        seconds_text(run.seconds),
        number_text(run.total_tokens),
        price,
    )
