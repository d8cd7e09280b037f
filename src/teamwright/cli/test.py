"""`teamwright test`: replays cases without calling anything, and says what differs.

It writes a case only where the user has said so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from teamwright.cli.terminal.interrupts import raise_on_interrupt
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
    from teamwright.testing.case_replay import CaseResult

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
