"""`teamwright runs list`: all runs, in a table, and which columns it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.options import check_statuses
from teamwright.cli.terminal.output import Json, Out, check_out, columns, one_line, say, write_json, write_result
from teamwright.values.text.display import NOTHING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.values.turns.results import RunSummary

RUN_HEADS = ("RUN", "TEAM", "STATUS", "STARTED", "TIME", "TOKENS", "PRICE")


def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most this many; 0 is all.")] = 0,
    status: Annotated[list[str] | None, typer.Option("--status", help="Only this status; may be repeated.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Show child runs too, which are branches on workers.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """List runs, newest first.

    Child runs are counted with their parent, whose tokens and price include theirs; --full lists them.

    Example:
      teamwright runs list --limit 10 --status paused
    """
    from teamwright.cli.runs.answer import answered_runs

    check_out(out)
    wanted = check_statuses(status)

    async def work(journal: Journal) -> int:
        most = None if wanted or not limit else limit
        every = await _runs(journal, most, children=full)
        runs = [run for run in every if not wanted or run.status in wanted][: limit or None]
        answered = await answered_runs(journal, runs)
        found = {} if full else await _children(journal, runs)
        if json:
            write_json([_fields(run, answered, found) for run in runs], out)
        elif runs:
            write_result(_table(runs, answered, found), out)
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


def _table(
    runs: Sequence[RunSummary],
    answered: Collection[str] = (),
    children: Mapping[str, Sequence[RunSummary]] | None = None,
) -> str:
    """One line per run, in columns; `answered` are paused runs whose questions are all answered.

    `children` are child runs by the id of their parent. A column that would be empty is left out.
    """
    from teamwright.cli.terminal.result_wording import run_cells, time_text

    families = children or {}
    lines = [RUN_HEADS, *(run_cells(run, answered=run.id in answered) for run in runs)]
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
