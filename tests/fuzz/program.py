"""Calls the command line in this process and holds what it did against what every command promises."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Collection
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any

from teamwright.cli.main import commands
from teamwright.cli.terminal.errors import guarded
from tests.fuzz.case import Violation
from tests.fuzz.targets.protocol import check_size, check_words

UNEXPECTED = "; set TEAMWRIGHT_DEBUG=1 to see where"
"""The message of the program for an unexpected error."""


@dataclass(frozen=True, slots=True)
class Called:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


def call(*arguments: str, codes: Collection[int] = (0, 2), given: str = "") -> Called:
    """Run a command; it must end with one of these codes, with its own messages, within bounds.

    `given` is the input, whose words may appear in the output.
    """
    called = _called(arguments)
    if UNEXPECTED in called.err:
        os.environ["TEAMWRIGHT_DEBUG"] = "1"  # so that it raises, and the finding has a traceback
        try:
            _called(arguments)
        finally:
            del os.environ["TEAMWRIGHT_DEBUG"]
        raise Violation("unexpected", f"{arguments[0]} {_named(called.err)}", called.err[-2000:])
    if called.code not in codes:
        raise Violation("code", f"{arguments[0]} ended with {called.code}", called.err[-2000:])
    check_size(called.out, called.err)
    if called.code:
        check_words(called.err, given)
    if "--json" in arguments:
        _check_json(called)
    return called


def _called(arguments: Collection[str]) -> Called:
    out, err = io.StringIO(), io.StringIO()
    path = list(sys.path)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = guarded(lambda: _invoked(arguments), as_json="--json" in arguments)
    finally:
        sys.path[:] = path
    return Called(code, out.getvalue(), err.getvalue())


def _invoked(arguments: Collection[str]) -> int:
    returned: object = _command().main(args=list(arguments), prog_name="teamwright", standalone_mode=False)
    return returned if isinstance(returned, int) else 0


@cache
def _command() -> Any:
    """The whole command line; Typer takes a tenth of a second to build it, so it is built once per process."""
    return commands()


def _named(message: str) -> str:
    """The kind of an unexpected error, out of what was said of it."""
    found = re.search(r"unexpected (\w+)", message)
    return found[1] if found else "an error"


def _check_json(called: Called) -> None:
    try:
        json.loads(called.out)
    except ValueError as error:
        raise Violation("json", "stdout is not one JSON document", f"{error}: {called.out[:500]!r}") from error
