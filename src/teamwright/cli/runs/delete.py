"""`teamwright runs delete`: deletes one run, or those that are old, never a running one.

Of unfinished runs, only those whose status is named are deleted.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.interrupts import raise_on_interrupt
from teamwright.cli.terminal.options import check_statuses, seconds_of
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result
from teamwright.errors import UsageError
from teamwright.values.text.display import count_text, size_text

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.values.turns.results import RunSummary

MOST_LISTED = 20
"""At most so many runs are listed before the question whether to delete them."""


def delete(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="One run: its id, a unique prefix of it, or `last`.")
    ] = None,
    *,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Runs with this status, also interrupted or paused; may be repeated."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="N|AGE",
            help="All but the newest N, or the younger: 30m, 12h, 7d; may be repeated.",
        ),
    ] = None,
    trees: Annotated[
        bool, typer.Option("--trees", help="Not the runs, only the trees of their members, where all is recorded.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Do not ask. A script without it gets the list, and exit code 2."),
    ] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Delete a run for good, or all that have ended and match: records, texts and files, inboxes, child runs.

    A run that is driven or queued is refused; cancel it first. Texts that other runs refer to stay, and so does a tree
    of files with changes that nothing records, which is named.

    Examples:
      teamwright runs delete last
      teamwright runs delete --keep 30d --keep 100 --yes
      teamwright runs delete --trees
    """
    check_out(out)
    if trees:
        if status or keep:
            raise UsageError("--trees is for RUN, or for all runs that have ended; leave out --status and --keep.")
        return _delete_trees(run, out, json=json)
    chosen = _chosen(run, status, keep)

    async def work(journal: Journal) -> int:
        ids = await chosen(journal)
        deleted = await _delete(journal, ids, yes=yes)
        if json:
            write_json(deleted.to_json(), out)
        else:
            write_result(deleted.to_text(), out)
        if deleted.dry_run:
            say("nothing is deleted; add --yes to delete these runs")
        return 2 if deleted.dry_run else 0

    return with_journal(work)


def _chosen(
    run: str | None, status: list[str] | None, keep: list[str] | None
) -> Callable[[Journal], Awaitable[tuple[str, ...]]]:
    """What finds the runs that the arguments name."""
    from teamwright.cli.terminal.command_setup import find_run

    if run is None and not (status or keep):
        raise UsageError("Say which runs: RUN, --status STATUS, --keep AGE or --keep N; --keep 0 deletes all.")
    if run is None:
        newest = [int(one) for one in keep or () if one.isdecimal()]
        ages = [seconds_of(one, "a number or an age") for one in keep or () if not one.isdecimal()]
        old = OldRuns(max(ages, default=None), tuple(status or ()), max(newest, default=0))

        async def find_old(journal: Journal) -> tuple[str, ...]:
            return tuple(one.id for one in old.choose(await journal.runs(), time.time()))

        return find_old
    if status or keep:
        raise UsageError("RUN names one run; leave out --status and --keep.")

    async def find_one(journal: Journal) -> tuple[str, ...]:
        from teamwright.runtime.recorded.reader import deletable_family

        return await deletable_family(journal, await find_run(journal, run))

    return find_one


def _delete_trees(run: str | None, out: Path | None, *, json: bool) -> int:
    """Remove the trees of members of runs that have ended, and name those that are kept."""

    async def work(journal: Journal) -> int:
        from teamwright.cli.terminal.command_setup import find_run
        from teamwright.runtime.working_trees.member_trees import prune_trees

        pruned = await prune_trees(journal, None if run is None else [(await find_run(journal, run)).id])
        if json:
            write_json({"removed": pruned.removed, "kept": list(pruned.kept)}, out)
        else:
            write_result(f"{count_text(pruned.removed, 'tree')} removed", out)
        _name_kept(pruned.kept)
        return 0

    return with_journal(work)


def _name_kept(places: Iterable[str]) -> None:
    for place in places:
        say(f"kept, since it has changes that no record has: {place}")


async def _delete(journal: Journal, ids: tuple[str, ...], *, yes: bool) -> Deleted:
    """Delete runs; unless `yes` is set after a confirmation at a terminal, and without a terminal not at all."""
    is_listed = not yes and not sys.stdin.isatty()
    if is_listed or not ids:
        return Deleted(ids, 0, dry_run=is_listed)
    if not yes:
        _confirm(ids)
    freed = await journal.delete(ids)
    from teamwright.runtime.working_trees.member_trees import prune_trees

    _name_kept((await prune_trees(journal, ids)).kept)
    return Deleted(ids, freed, dry_run=False)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The deleted runs, or with `dry_run` those that would be deleted."""

    ids: tuple[str, ...]
    freed: int
    dry_run: bool

    def to_json(self) -> dict[str, JsonValue]:
        return {"deleted": list(self.ids), "freed_bytes": self.freed, "dry_run": self.dry_run}

    def to_text(self) -> str:
        runs = count_text(len(self.ids), "run")
        if self.dry_run:
            return "\n".join([f"{runs} would be deleted", *self.ids])
        return f"{runs} deleted, {size_text(self.freed)} freed"


@dataclass(frozen=True, slots=True)
class OldRuns:
    """Which of all runs to delete."""

    older_than: float | None
    statuses: tuple[str, ...]
    keep: int

    def choose(self, runs: list[RunSummary], now: float) -> list[RunSummary]:
        """The runs to delete; `runs` are newest first. Child runs go with their parent, and never without it."""
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


def _confirm(ids: tuple[str, ...]) -> None:
    """List the runs, and ask the person at the terminal."""
    shown = [*ids[:MOST_LISTED], *(["…"] if len(ids) > MOST_LISTED else ())]
    with raise_on_interrupt():
        typer.confirm("\n".join([*shown, f"Delete {count_text(len(ids), 'run')} permanently?"]), abort=True, err=True)
