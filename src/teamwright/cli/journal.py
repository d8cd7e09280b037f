"""`teamwright journal`: copies runs between journals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, one_line, say, write_json, write_result

if TYPE_CHECKING:
    from teamwright.journal.copy import CopiedRun

app = typer.Typer(help="Copy runs between journals.", no_args_is_help=True, rich_markup_mode=None)
Address = "a file of SQLite, or a URL of Postgres"


@app.callback()
def journal() -> None:
    """Copy runs between journals."""


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help=f"The journal to read: {Address}.")],
    target: Annotated[str, typer.Argument(metavar="TO", help=f"The journal to write: {Address}.")],
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN…]", help="Copy these runs alone, by their ids.")
    ] = None,
    json: Json = False,
) -> int:
    """Copy runs from one journal to another, and check each by its digest.

    Runs that are being driven are left out. The source stays as it is: resume a copied run in one of the two only.
    """
    from pathlib import Path

    import anyio

    from teamwright.errors import UsageError
    from teamwright.journal.location import is_url

    if not is_url(source) and not Path(source).expanduser().is_file():
        raise UsageError(f"There is no journal at {source!r}.")
    copied = anyio.run(_copy, source, target, runs or None, not json)
    if json:
        write_json([one.to_json() for one in copied])
    else:
        write_result(_summary(copied))
    return 0 if all(one.outcome in ("copied", "present") for one in copied) else 1


async def _copy(source: str, target: str, runs: list[str] | None, tell: bool) -> list[CopiedRun]:
    from teamwright.journal.copy import copy_runs
    from teamwright.journal.location import resolve_journal

    one, two = resolve_journal(source), resolve_journal(target)
    copied: list[CopiedRun] = []
    await one.open()
    try:
        await two.open()
        try:
            async for run in copy_runs(one, two, runs):
                copied.append(run)
                if tell and run.outcome not in ("copied", "present"):
                    say(f"{one_line(run.run_id)}: {run.reason}")
        finally:
            await two.close()
    finally:
        await one.close()
    return copied


def _summary(copied: list[CopiedRun]) -> str:
    from collections import Counter

    counts = Counter(one.outcome for one in copied)
    shown = {"copied": "copied", "present": "there already", "live": "being driven", "differs": "different there"}
    parts = [f"{counts[outcome]} {shown.get(outcome, outcome)}" for outcome in (*shown, "failed") if counts[outcome]]
    return f"{len(copied)} runs: {', '.join(parts)}" if copied else "there are no runs to copy"
