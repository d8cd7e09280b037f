"""The one place where errors become a message on stderr and an exit code. A traceback shows only when asked for."""

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
    never_fail_to_encode,
    open_what_is_closed,
    result_json,
    say,
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
"""What the parser of arguments says of values, and what we say instead."""

USAGE = 2
FAILED = 1


def guarded(call: Callable[[], int | None], *, as_json: bool = False) -> int:
    """Call a command; whatever it raises becomes a message and an exit code."""
    open_what_is_closed()
    never_fail_to_encode()
    try:
        return call() or 0
    except ClosedOutput:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        say("Nothing was done.")
        return FAILED
    except typer.TyperException as error:
        return _bad_arguments(error, as_json)
    except LostOutput as error:
        return _lost(error, as_json)
    except Exception as error:  # noqa: BLE001 - the last place that can tell the user anything
        if os.environ.get("TEAMWRIGHT_DEBUG"):
            say("".join(format_exception(error)))
            return FAILED
        return _failed(error, as_json)


def _lost(error: LostOutput, as_json: bool) -> int:
    return _told(type(error).__name__, str(error), (), FAILED, as_json)


def _bad_arguments(error: typer.TyperException, as_json: bool) -> int:
    """Typer's own complaints: unknown options, missing arguments. Without any argument it is the help text."""
    context = getattr(error, "ctx", None)
    message = _own_words(error.format_message())
    if type(error).__name__ == "NoArgsIsHelpError":
        say(message)
        return USAGE
    path = context.command_path if context is not None else "teamwright"
    return _told("UsageError", f"{message} (see  {path} --help)", (), USAGE, as_json)


def _own_words(message: str) -> str:
    """A complaint about a value, as we put it elsewhere."""
    for theirs, ours in VALUES:
        message = re.sub(theirs, ours, message)
    return message


def _failed(error: Exception, as_json: bool) -> int:
    from teamwright.errors import TeamwrightError

    if isinstance(error, TeamwrightError):
        return _told(type(error).__name__, str(error), _problems(error), exit_code(error), as_json)
    if isinstance(error, OSError):
        try:
            flush_results()
        except LostOutput as lost:  # it was a text of Typer's that could not be written
            return _lost(lost, as_json)
    first = clean(str(error)).strip().splitlines()
    text = f"unexpected {type(error).__name__}{': ' + first[0] if first else ''}; set TEAMWRIGHT_DEBUG=1 to see where"
    return _told(type(error).__name__, text, (), FAILED, as_json)


def exit_code(error: TeamwrightError) -> int:
    """2 where the caller can fix what was written and nothing ran, 1 for everything else."""
    from teamwright.errors import UsageError

    return USAGE if isinstance(error, UsageError) else FAILED


def _problems(error: TeamwrightError) -> Sequence[Problem]:
    """Each mistake of an error that has several."""
    from teamwright.errors import ManifestError, Problem, UsageError

    if isinstance(error, ManifestError):
        return error.problems
    return [Problem(reason) for reason in error.reasons] if isinstance(error, UsageError) else ()


def problem_json(problem: Problem) -> JsonValue:
    """One mistake in a manifest, as data."""
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "suggestion": problem.suggestion,
    }


def _told(kind: str, message: str, problems: Sequence[Problem], code: int, as_json: bool) -> int:
    say(f"teamwright: {message}" if "\n" not in message else message)
    if as_json:
        from teamwright.errors import Problem

        listed = [problem_json(problem) for problem in problems or [Problem(message)]]
        with suppress(ClosedOutput, LostOutput):
            result_json({"error": {"kind": kind, "message": message, "problems": listed}})
    return code
