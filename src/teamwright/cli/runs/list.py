"""`teamwright runs list`: runs, newest first, and the columns of the table.

Child runs are listed on request: their parents include their figures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from teamwright.cli.terminal.open import with_journal
from teamwright.cli.terminal.output import Json, Out, check_out, columns, one_line, say, write_json, write_result
from teamwright.errors import UnknownName
from teamwright.values.text.display import NOTHING, cut, number_text, price_text, seconds_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.values.turns.results import RunSummary, Status

HEADS = ("RUN", "TEAM", "STATUS", "STARTED", "TIME", "TOKENS", "PRICE")
WIDEST_TEAM = 24


def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most this many; 0 is all.")] = 0,
    status: Annotated[list[str] | None, typer.Option("--status", help="Only this status; may be repeated.")] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Show child runs too, which are branches on workers.")
    ] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """List runs, newest first.

    Child runs are counted with their parent, whose tokens and price include theirs; --children lists them.
    """
    from teamwright.cli.runs.answer import answered_runs

    check_out(out)
    wanted = check_statuses(status)

    async def work(journal: Journal) -> int:
        most = None if wanted or not limit else limit
        every = await _runs(journal, most, children=children)
        runs = [run for run in every if not wanted or run.status in wanted][: limit or None]
        answered = await answered_runs(journal, runs)
        found = {} if children else await _children(journal, runs)
        if json:
            write_json([_fields(run, answered, found) for run in runs], out)
        elif runs:
            write_result(table(runs, answered, found), out)
        elif every:
            say(f"There are no {' or '.join(wanted)} runs. See all with  teamwright runs list")
        else:
            say("There are no runs yet. Start one with  teamwright run MANIFEST TASK")
        return 0

    return with_journal(work)


async def _runs(journal: Journal, limit: int | None, *, children: bool) -> list[RunSummary]:
    return await journal.runs(limit) if children else await journal.top_runs(limit)


async def _children(journal: Journal, runs: Sequence[RunSummary]) -> dict[str, list[RunSummary]]:
    """The children of these runs, by the id of their parent."""
    found: dict[str, list[RunSummary]] = {}
    for child in await journal.children({run.id for run in runs}):
        found.setdefault(child.parent, []).append(child)
    return found


def _fields(
    run: RunSummary, answered: Collection[str], children: Mapping[str, Sequence[RunSummary]]
) -> dict[str, JsonValue]:
    """The run as data, with what only some runs have."""
    fields = run.to_json()
    if run.id in answered:
        fields["answered"] = True
    if run.id in children:
        fields["children"] = len(children[run.id])
    return fields


def check_statuses(names: Sequence[str] | None) -> tuple[Status, ...]:
    """Return the statuses with these names, or reject an unknown one."""
    from teamwright.values.turns.results import Status

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


def time_text(time: str) -> str:
    """A recorded time in the user's time zone, to the minute."""
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
        time_text(run.started_at),
        seconds_text(run.seconds),
        number_text(run.total_tokens),
        price,
    )
