"""`teamwright runs check`: whether recorded runs would resume with what is installed now. It changes no run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import extend_sys_path, find_run, load_manifest, with_journal
from teamwright.cli.terminal.options import complete_runs, seconds_of
from teamwright.cli.terminal.output import Json, Out, check_out, redirect_prints, write_json, write_result
from teamwright.errors import UsageError
from teamwright.values.text.display import count_text

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.testing.resume_check import ResumeCheck
    from teamwright.values.specs.manifest import Source
    from teamwright.values.turns.results import RunSummary

NOT_CHECKED = "not_checked"
ENDED = 20
"""How many ended runs are checked, the newest, where none are named."""


def check(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN…]", help="Runs: their ids, prefixes of them, or `last`.", autocompletion=complete_runs
        ),
    ] = None,
    *,
    since: Annotated[
        str | None, typer.Option("--since", metavar="AGE", help="All runs started since: 90s, 30m, 12h, 7d, 4w ago.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="Besides open runs, the newest N that have ended.")
    ] = ENDED,
    manifest: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="With the team of this manifest, not the recorded.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Check that recorded runs resume with today's code and libraries. Nothing is called, and no run is changed.

    By default: all runs that are paused or interrupted, and the newest that have ended. The exit code is 1 if one would
    not resume or can't be read, and 2 if there is none to check.

    Examples:
      teamwright runs check
      teamwright runs check --since 7d --from team.yaml
    """
    check_out(out)
    if runs and since is not None:
        raise UsageError("Name runs, or take those since a time with --since; not both.")
    extend_sys_path()

    async def work(journal: Journal) -> int:
        from teamwright.testing.resume_check import check_resume

        chosen = await _chosen(journal, runs or (), since, limit)
        if not chosen:
            raise UsageError("There is no run to check; start one with  teamwright run")
        checked = [await check_resume(journal, one.id, _source(manifest, one.team)) for one in chosen]
        if json:
            write_json([one.to_json() for one in checked], out)
        else:
            write_result("\n".join(line for one in checked for line in _lines(one)) + f"\n{_total(checked)}", out)
        if all(one.verdict == NOT_CHECKED for one in checked):
            raise UsageError("None of these runs can be checked without the program that made its team.")
        return 0 if all(one.passes or one.verdict == NOT_CHECKED for one in checked) else 1

    with redirect_prints():
        return with_journal(work)


async def _chosen(journal: Journal, named: Sequence[str], since: str | None, limit: int) -> list[RunSummary]:
    """The runs to check: those named, those since a time, or the open ones and the newest that have ended."""
    from teamwright.values.turns.results import FINAL

    if named:
        return [await find_run(journal, one) for one in dict.fromkeys(named)]
    every = [one for one in await journal.runs() if one.status not in ("running", "queued")]
    if since is not None:
        began = time.time() - seconds_of(since)
        return [one for one in every if _started(one) > began]
    ended = [one for one in every if one.status in FINAL][:limit]
    return [one for one in every if one.status not in FINAL or one in ended]


def _started(run: RunSummary) -> float:
    return datetime.fromisoformat(run.started_at).timestamp() if run.started_at else time.time()


def _source(manifest: Path | None, team: str) -> Source | None:
    from teamwright.teams.team_loader import source_of

    if manifest is None:
        return None
    loaded = load_manifest([manifest], None)
    declared = {*loaded.manifest.teams, *loaded.manifest.agents}
    return source_of(loaded, team=team if team in declared else None)


def _lines(one: ResumeCheck) -> list[str]:
    from teamwright.testing.resume_check import WORDS

    why = f": {one.why}" if one.why else ""
    lines = [f"{one.run_id}  {WORDS[one.verdict]}{why}"]
    for turn in one.turns:
        lines += [f"  {turn.key}: {turn.text}", *(f"    {line}" for line in turn.difference)]
    return lines


def _total(checked: Sequence[ResumeCheck]) -> str:
    passed, left_out = sum(one.passes for one in checked), sum(one.verdict == NOT_CHECKED for one in checked)
    more = f", {left_out} not checked" if left_out else ""
    return (
        f"{count_text(len(checked), 'run')}: {passed} would resume, {len(checked) - passed - left_out} would not{more}"
    )
