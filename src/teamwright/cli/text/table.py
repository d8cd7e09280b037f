"""Runs as a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import cast, get_args

from teamwright.cli.terminal.output import one_line
from teamwright.errors import UnknownName
from teamwright.history.conversation import ConversationSummary
from teamwright.values.results import RunSummary, Status
from teamwright.values.text.display import NOTHING, cut, number_text, price_text, seconds_text

HEADS = ("RUN", "TEAM", "STATUS", "STARTED", "TIME", "TOKENS", "PRICE")
WIDEST_TEAM = 24


def check_statuses(names: Sequence[str] | None) -> tuple[Status, ...]:
    """Return the statuses with these names, or reject an unknown one."""
    known = get_args(Status)
    for name in names or ():
        if name not in known:
            raise UnknownName("status", name, known)
    return cast("tuple[Status, ...]", tuple(names or ()))


def table(
    runs: Sequence[RunSummary],
    answered: Collection[str] = (),
    children: Mapping[str, Sequence[RunSummary]] | None = None,
) -> str:
    """One line per run, in columns; `answered` are paused runs whose questions are all answered.

    `children` are child runs by the id of their parent. A column that would be empty is left out.
    """
    families = children or {}
    lines = [HEADS, *(_cells(run, answered=run.id in answered) for run in runs)]
    for head, texts in (
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
        run, member, status, _, *figures = _cells(child, answered=False)
        lines.append((run, member, one_line(child.driver) or NOTHING, status, *figures))
    return columns(lines)


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells as text with aligned columns."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def conversation_table(conversations: Sequence[ConversationSummary]) -> str:
    """One line per conversation, in columns."""
    heads = ("CONVERSATION", "TEAM", "TURNS", "LAST RUN", "STATUS", "STARTED", "TOKENS", "PRICE")
    cells = [
        (
            one_line(one.name),
            one_line(cut(one.team, WIDEST_TEAM)),
            str(one.turns),
            one_line(one.last_run),
            one.status,
            _time_text(one.started_at),
            number_text(one.total_tokens),
            NOTHING if one.usd is None else price_text(one.usd),
        )
        for one in conversations
    ]
    return columns([heads, *cells])


def _time_text(time: str) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M") if time else NOTHING


def _cells(run: RunSummary, *, answered: bool) -> tuple[str, ...]:
    team = cut(run.team, WIDEST_TEAM)
    reason = f" ({run.stop_reason})" if run.stop_reason and run.stop_reason not in {"done", run.status} else ""
    reason = " (answered)" if answered else reason
    status = "unreadable" if run.damage else f"{run.status}{reason}"
    price = NOTHING if run.usd is None else price_text(run.usd)
    return (
        one_line(run.id),
        one_line(team),
        status,
        _time_text(run.started_at),
        seconds_text(run.seconds),
        number_text(run.total_tokens),
        price,
    )
