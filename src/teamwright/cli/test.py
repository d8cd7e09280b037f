"""`teamwright test` and `runs check`: replay cases, or recorded runs, without calling anything, and say what differs.

A case is written only where the user has said so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from teamwright.cli.terminal.command_setup import extend_sys_path, find_run, load_manifest, with_journal
from teamwright.cli.terminal.interrupts import raise_on_interrupt
from teamwright.cli.terminal.options import complete_runs, seconds_of
from teamwright.cli.terminal.output import (
    Json,
    Out,
    check_out,
    redirect_prints,
    say,
    write_file,
    write_json,
    write_result,
)
from teamwright.errors import UsageError
from teamwright.values.text.display import count_text, seconds_text

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.testing.case_replay import CaseResult
    from teamwright.testing.resume_check import ResumeCheck
    from teamwright.values.specs.manifest import Source
    from teamwright.values.turns.results import RunSummary


JUNIT = ".xml"


def replay_cases(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Cases, and folders in which all are taken.")],
    *,
    kill: Annotated[
        bool, typer.Option("--kill", help="Also cut each run off at every write, and resume it: it must end the same.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Rewrite cases that differ, after a look at the difference.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --update: rewrite without asking.")] = False,
    live: Annotated[
        Literal["models", "tools", "all"] | None,
        typer.Option("--live", help="Ask the real models, call the real tools and functions, or both."),
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Replay cases: recorded runs with what they must do again. Nothing is called, and no key is needed.

    A case fails if a call sends something else than then, if it makes a call that was not recorded, if a recorded
    reply is not asked for, or if the result is not as expected. The exit code is 1 if one fails or can't be read. With
    --live models, what a case expects is checked of new replies. --out FILE.xml writes the results as JUnit XML too.

    Examples:
      teamwright test tests/cases
      teamwright test tests/cases --kill --out report.xml
    """
    from teamwright.cli.terminal.command_setup import extend_sys_path
    from teamwright.testing.case_file import find_cases
    from teamwright.testing.case_player import LiveCalls
    from teamwright.testing.case_replay import run_case

    check_out(out)
    if kill and live:
        raise UsageError("--kill cuts off what is replayed; leave out --live.")
    junit = out if out is not None and out.suffix.lower() == JUNIT else None
    out = None if junit is not None else out
    found = find_cases(paths)
    if not found:
        raise UsageError(
            f"There is no case in {', '.join(map(str, paths))};"
            " make one with  teamwright runs export RUN --out FILE.yaml"
        )
    extend_sys_path()
    how = LiveCalls(models=live in ("models", "all"), tools=live in ("tools", "all"))
    results: list[CaseResult] = []
    with redirect_prints():
        for path in found:
            result = run_case(path, how, kill=kill)
            if not json and out is None:
                write_result(_case_text(result))
            results.append(_updated(path, result, yes=yes) if update and _is_stale(path, result) else result)
    _report(results, junit, out, json=json)
    return 0 if all(one.passes for one in results) else 1


def _report(results: Sequence[CaseResult], junit: Path | None, out: Path | None, *, json: bool) -> None:
    failed = sum(not one.passes for one in results)
    if junit is not None:
        write_file(junit_text(results), junit)
    if json:
        write_json(
            {
                "cases": [one.to_json() for one in results],
                "passed": len(results) - failed,
                "failed": failed,
                "seconds": round(sum(one.seconds for one in results), 3),
            },
            out,
        )
        return
    took = seconds_text(sum(one.seconds for one in results))
    total = f"{count_text(len(results), 'case')}: {len(results) - failed} passed, {failed} failed · {took}"
    write_result(total if out is None else "\n".join([*map(_case_text, results), total]), out)


def _case_text(result: CaseResult) -> str:
    kills = f" · killed and resumed {count_text(result.kills, 'time')}" if result.kills else ""
    return "\n".join([f"{result.status}  {result.name}  {seconds_text(result.seconds)}{kills}", *result.lines()])


def _is_stale(path: Path, result: CaseResult) -> bool:
    """Whether a case differs; one that passed live may do so with replies that it does not have yet."""
    from teamwright.testing.case_replay import run_case

    return not result.passes or (result.recorded is not None and not run_case(path).passes)


def _updated(path: Path, result: CaseResult, *, yes: bool) -> CaseResult:
    """Rewrite a case so that it passes, if that is wanted and possible; returns what is left of its findings."""
    from teamwright.testing.case_replay import rewrite_case, run_case

    if result.now is None or (result.was_halted and result.recorded is None):
        say(f"{path}: not updated: it needs replies that were never recorded; run it once with  --live models --update")
        return result
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("--update asks before it rewrites a case; in a script, add --yes.")
        with raise_on_interrupt():
            if not typer.confirm(f"Rewrite {path}?", err=True):
                return result
    rewrite_case(path, result)
    again = run_case(path)
    say(f"{path}: updated" if again.passes else f"{path}: updated, and it still fails")
    return again


def junit_text(results: Sequence[CaseResult]) -> str:
    """Return the results as JUnit XML."""
    from xml.etree import ElementTree as ET

    from teamwright.cli.terminal.output import clean

    failed = sum(not one.passes for one in results)
    suite = ET.Element("testsuite", name="teamwright", tests=str(len(results)), failures=str(failed))
    suite.set("time", f"{sum(one.seconds for one in results):.3f}")
    for one in results:
        case = ET.SubElement(suite, "testcase", classname="teamwright.cases", name=one.name, time=f"{one.seconds:.3f}")
        if not one.passes:
            text = clean("\n".join(one.lines()))
            ET.SubElement(case, "failure", message=one.findings[0].text[:200]).text = text
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


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
