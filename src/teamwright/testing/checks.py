"""Runs the checks of a conformance suite one after the other and reports every mistake at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

from teamwright.errors import TeamwrightError

T = TypeVar("T")


def run_checks(checks: Iterable[Callable[[T], Awaitable[None]]], trial: T) -> None:
    """Run each check on the trial; raises one `AssertionError` that lists every mistake under the name of its check."""
    found: list[str] = []
    for check in checks:
        try:
            anyio.run(check, trial)
        except (AssertionError, TeamwrightError) as error:
            found.append(f"{check.__name__.removeprefix('check_')}: {error}")
    if found:
        raise AssertionError("\n".join(found))
