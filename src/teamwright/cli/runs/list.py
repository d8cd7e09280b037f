"""`teamwright runs list`: all runs, in a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.options import check_statuses
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.values.turns.results import RunSummary


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
            from teamwright.cli.terminal.run_tables import run_table

            write_result(run_table(runs, answered, found), out)
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
