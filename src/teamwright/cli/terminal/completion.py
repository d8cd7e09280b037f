"""What the shell completes besides options and files: runs, teams, members and conversations.

A completion never fails and never writes: where something can't be read, there is nothing to complete. It loads no code
that a manifest names.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from teamwright.errors import TeamwrightError

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

MOST_RUNS = 200
"""At most so many runs are offered, the newest."""
Completions = list[tuple[str, str]]
"""The words that fit, each with a line about it; shells that show no lines leave it out."""


def complete_runs(incomplete: str) -> Completions:
    """The newest runs whose ids begin so, with their teams and statuses, and `last`."""

    async def read(journal: Journal) -> Completions:
        runs = await journal.top_runs(MOST_RUNS)
        return [("last", "the newest run"), *((run.id, f"{run.team}, {run.status}") for run in runs)]

    return _fitting(_from_journal(read), incomplete)


def complete_conversations(incomplete: str) -> Completions:
    """The conversations whose names begin so."""

    async def read(journal: Journal) -> Completions:
        runs = await journal.runs()
        return [(name, "") for name in dict.fromkeys(run.conversation for run in runs) if name]

    return _fitting(_from_journal(read), incomplete)


def complete_members(ctx: typer.Context, incomplete: str) -> Completions:
    """The members of the run that the command names."""
    run = _first_argument(ctx, "run")

    async def read(journal: Journal) -> Completions:
        from teamwright.cli.terminal.command_setup import find_run
        from teamwright.values.events.team import TeamStarted

        events = await journal.read((await find_run(journal, run or "")).id)
        teams = (event.fact for event in events if isinstance(event.fact, TeamStarted))
        return [(name, "") for name in dict.fromkeys(name for team in teams for name in team.members)]

    return _fitting(_from_journal(read) if run else [], incomplete)


def complete_teams(ctx: typer.Context, incomplete: str) -> Completions:
    """The teams and agents of the manifests that the command names."""
    paths = [_first_argument(ctx, "manifest"), *(ctx.params.get("more") or ())]
    found: Completions = []
    with suppress(TeamwrightError, OSError, ValueError):
        from teamwright.agents.functions.imports import code_not_loaded
        from teamwright.teams.team_loader import read_manifest

        with code_not_loaded():
            manifest = read_manifest([Path(one) for one in paths if one], models_replaced=True).manifest
        found = [(name, "team") for name in manifest.teams] + [(name, "agent") for name in manifest.agents]
    return _fitting(found, incomplete)


def _first_argument(ctx: typer.Context, name: str) -> str | None:
    """The first argument of the command; the parser leaves it out behind an option whose value is being written."""
    if given := ctx.params.get(name):
        return str(given)
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    with suppress(ValueError):  # a quote that is still open
        words = shlex.split(line)[len(ctx.command_path.split()) :]
        return next((word for word in words if not word.startswith("-")), None)
    return None


def _from_journal(read: Callable[[Journal], Awaitable[Completions]]) -> Completions:
    """Read the user's journal, if there is one."""
    from teamwright.cli.terminal.command_setup import with_journal
    from teamwright.journal.location import has_journal

    with suppress(TeamwrightError, OSError, ValueError):
        if has_journal():
            return with_journal(read, busy_timeout=1.0)
    return []


def _fitting(found: Iterable[tuple[str, str]], incomplete: str) -> Completions:
    return [one for one in found if one[0].startswith(incomplete)]
