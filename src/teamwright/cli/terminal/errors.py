"""Turns every error into a message on stderr and an exit code. Tracebacks need TEAMWRIGHT_DEBUG."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from traceback import format_exception
from typing import TYPE_CHECKING

import typer

from teamwright.cli.terminal.interrupts import INTERRUPTED
from teamwright.cli.terminal.output import (
    ClosedOutput,
    LostOutput,
    clean,
    flush_results,
    reopen_closed_streams,
    replace_unencodable,
    say,
    write_json,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.errors import Problem, TeamwrightError

VALUES = (
    (r"Input should be a valid integer\b[^()]*", "expects a whole number "),
    (r"Input should be a (?:valid|finite) number\b[^()]*", "expects a number "),
    (r"Input should be a valid boolean\b[^()]*", "expects true or false "),
    (r"Input should be greater than or equal to ", "must be at least "),
    (r"Input should be less than or equal to ", "must be at most "),
    (r"Input should be greater than ", "must be more than "),
    (r"Input should be less than ", "must be less than "),
    (r"Input should be ", "must be "),
)
"""Messages of the argument parser about values, as patterns, with our replacements."""

USAGE = 2
FAILED = 1
BUDGET = 4


def guarded(call: Callable[[], int | None], *, as_json: bool = False) -> int:
    """Call a command and return its exit code; whatever it raises becomes a message and an exit code."""
    reopen_closed_streams()
    replace_unencodable()
    try:
        return call() or 0
    except ClosedOutput:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        say("Aborted; nothing was changed.")
        return FAILED
    except typer.TyperException as error:
        return _report_bad_arguments(error, as_json)
    except LostOutput as error:
        return _report_lost_output(error, as_json)
    except Exception as error:  # noqa: BLE001 - nothing above this could report it
        if os.environ.get("TEAMWRIGHT_DEBUG"):
            say("".join(format_exception(error)))
            return FAILED
        return _report_failure(error, as_json)


def _report_lost_output(error: LostOutput, as_json: bool) -> int:
    return _report(type(error).__name__, str(error), (), FAILED, as_json)


def _report_bad_arguments(error: typer.TyperException, as_json: bool) -> int:
    """Report an error of Typer, such as an unknown option; for a call without arguments it is the help text."""
    context = getattr(error, "ctx", None)
    message = _reword(error.format_message())
    if type(error).__name__ == "NoArgsIsHelpError":
        say(message)
        return USAGE
    if message.startswith(("No such command", "No such option")):
        message = f"{message.rstrip('.')}{_absent_wings()}"
        message += "" if message.endswith("?") else "."
    path = context.command_path if context is not None else "teamwright"
    return _report("UsageError", f"{message} (see  {path} --help)", (), USAGE, as_json)


def _absent_wings() -> str:
    from teamwright.wings import absent_words

    absent = absent_words()
    return f"; some commands and options are part of what is not installed{absent}" if absent else ""


def _reword(message: str) -> str:
    """A message of Typer about a value in the words that our own messages use."""
    for theirs, ours in VALUES:
        message = re.sub(theirs, ours, message)
    return message


def _report_failure(error: Exception, as_json: bool) -> int:
    from teamwright.errors import TeamwrightError

    if isinstance(error, TeamwrightError):
        return _report(type(error).__name__, str(error), _problems(error), exit_code(error), as_json)
    if isinstance(error, OSError):
        try:
            flush_results()
        except LostOutput as lost:  # a text of Typer could not be written
            return _report_lost_output(lost, as_json)
    first = clean(str(error)).strip().splitlines()
    text = f"unexpected {type(error).__name__}{': ' + first[0] if first else ''}; set TEAMWRIGHT_DEBUG=1 to see where"
    return _report(type(error).__name__, text, (), FAILED, as_json)


def exit_code(error: TeamwrightError) -> int:
    """Return 2 if the user's input is wrong and nothing ran, 4 for the budget of a tenant, 1 for every other error."""
    from teamwright.errors import BudgetUnavailable, UsageError

    if isinstance(error, BudgetUnavailable):
        return BUDGET
    return USAGE if isinstance(error, UsageError) else FAILED


def _problems(error: TeamwrightError) -> Sequence[Problem]:
    """The individual problems of an error that reports several."""
    from teamwright.errors import ManifestError, Problem, UsageError

    if isinstance(error, ManifestError):
        return error.problems
    return [Problem(reason) for reason in error.reasons] if isinstance(error, UsageError) else ()


def problem_json(problem: Problem) -> JsonValue:
    """One problem in a manifest, as data."""
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "suggestion": problem.suggestion,
    }


def _report(kind: str, message: str, problems: Sequence[Problem], code: int, as_json: bool) -> int:
    say(f"teamwright: {message}" if "\n" not in message else message)
    if as_json:
        from teamwright.errors import Problem

        listed = [problem_json(problem) for problem in problems or [Problem(message)]]
        with suppress(ClosedOutput, LostOutput):
            write_json({"error": {"kind": kind, "message": message, "problems": listed}})
    return code
