"""`teamwright runs delete` and `prune`: delete runs, never a running one.

Of unfinished runs, `prune` deletes only those whose status is named.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.interrupts import raise_on_interrupt
from teamwright.cli.terminal.open import with_journal
from teamwright.cli.terminal.options import Run
from teamwright.cli.terminal.output import Json, Out, check_out, write_json, write_result
from teamwright.errors import RunIsLive, UsageError
from teamwright.values.text.display import count_text, size_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.values.turns.results import RunSummary


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def delete(run: Run, yes: Yes = False, json: Json = False, out: Out = None) -> int:
    """Delete one run for good: its record, its texts and files, its inbox, and its child runs.

    A run that is driven or queued is refused; cancel it first. Texts that other runs refer to stay.
    """
    from teamwright.cli.terminal.open import find_run

    check_out(out)

    async def work(journal: Journal) -> int:
        deleted = await delete_run(journal, await find_run(journal, run), yes=yes)
        if json:
            write_json(deleted.to_json(), out)
        else:
            write_result(deleted.to_text(), out)
        return 0

    return with_journal(work)


def prune(
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Only runs started longer ago: 90s, 30m, 12h, 7d, 4w."),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only this status, also interrupted or paused; may be repeated."),
    ] = None,
    keep: Annotated[int, typer.Option("--keep", min=0, metavar="N", help="Keep the newest N of them.")] = 0,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Delete runs that have ended, and free their disk space."""
    from teamwright.cli.terminal.options import seconds_of

    check_out(out)
    wanted = Prune(
        seconds_of(older_than) if older_than is not None else None, tuple(status or ()), keep, yes=yes, dry_run=dry_run
    )

    async def work(journal: Journal) -> int:
        pruned = await wanted.run(journal)
        if json:
            write_json(pruned.to_json(), out)
        else:
            write_result(pruned.to_text(), out)
        return 0

    return with_journal(work)


@dataclass(frozen=True, slots=True)
class Pruned:
    """The deleted runs, or with `dry_run` those that would be deleted."""

    ids: tuple[str, ...]
    freed: int
    dry_run: bool

    def to_json(self) -> dict[str, JsonValue]:
        """As data."""
        return {"deleted": list(self.ids), "freed_bytes": self.freed, "dry_run": self.dry_run}

    def to_text(self) -> str:
        """As text."""
        runs = count_text(len(self.ids), "run")
        if self.dry_run:
            return "\n".join([f"{runs} would be deleted", *self.ids])
        return f"{runs} deleted, {size_text(self.freed)} freed"


@dataclass(frozen=True, slots=True)
class Prune:
    """Which runs to delete."""

    older_than: float | None
    statuses: tuple[str, ...]
    keep: int
    yes: bool
    dry_run: bool

    async def run(self, journal: Journal) -> Pruned:
        """Delete the matching runs, after a confirmation unless `yes` is set."""
        chosen = self.choose(await journal.runs(), time.time())
        ids = tuple(run.id for run in chosen)
        if self.dry_run or not ids:
            return Pruned(ids, 0, self.dry_run)
        if not self.yes:
            _confirm(len(ids), "add --yes to do it, or --dry-run to see which")
        return Pruned(ids, await journal.delete(ids), dry_run=False)

    def choose(self, runs: list[RunSummary], now: float) -> list[RunSummary]:
        """The runs to delete; `runs` are newest first. Child runs go with their parent, and never without it."""
        from teamwright.cli.runs.list import check_statuses
        from teamwright.values.turns.results import FINAL

        statuses = set(check_statuses(self.statuses)) or FINAL
        matching = [
            family
            for family in _families(runs)
            if family[0].status in statuses and all(run.status != "running" for run in family)
        ][self.keep :]
        if self.older_than is not None:
            matching = [family for family in matching if now - _started(family[0]) > self.older_than]
        return [run for family in matching for run in family]


async def delete_run(journal: Journal, run: RunSummary, *, yes: bool) -> Pruned:
    """Delete one run with its child runs, after a confirmation unless `yes` is set.

    Raises `UsageError` if a worker will drive it, and `RunIsLive` if a process does, or drives one of its children.
    """
    if run.status == "queued":
        raise UsageError(
            f"Run {run.id!r} is queued, and a worker may drive it at any moment: end it first with"
            f"  teamwright runs cancel {run.id}"
        )
    family = [run, *await journal.descendants([run.id])]
    if running := next((one for one in family if one.status == "running"), None):
        raise RunIsLive(running.id)
    if not yes:
        _confirm(len(family), "add --yes to do it")
    ids = tuple(one.id for one in family)
    return Pruned(ids, await journal.delete(ids), dry_run=False)


def _families(runs: list[RunSummary]) -> Iterator[list[RunSummary]]:
    """Each run that is no child, followed by its children and theirs; a child without its parent is no child."""
    known = {run.id for run in runs}
    children: defaultdict[str, list[RunSummary]] = defaultdict(list)
    for run in runs:
        if run.parent in known:
            children[run.parent].append(run)
    for run in runs:
        if run.parent not in known:
            family = [run]
            for one in family:
                family += children[one.id]
            yield family


def _started(run: RunSummary) -> float:
    return datetime.fromisoformat(run.started_at).timestamp() if run.started_at else 0.0


def _confirm(count: int, how: str) -> None:
    """Ask a person at a terminal; elsewhere raise `UsageError`, which says how to confirm."""
    if not sys.stdin.isatty():
        raise UsageError(f"{count_text(count, 'run')} would be deleted; {how}.")
    with raise_on_interrupt():
        typer.confirm(f"Delete {count_text(count, 'run')} permanently?", abort=True, err=True)
