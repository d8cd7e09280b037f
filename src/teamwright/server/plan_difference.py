"""The difference of two plans as text: at once for short ones, in another process for long ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.strategies.plan.changes.difference import plan_text

FEW_LINES = 400
"""Plans with fewer lines are compared at once, longer ones in another process."""
PLAN_DIFFERENCE = "teamwright.server.plan_difference:difference_job"


def lines_of(plan: JsonValue) -> list[str]:
    """Return a plan as lines of JSON."""
    return plan_text(plan).splitlines()


def difference(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the difference of two plans as a unified diff."""
    return list(difflib.unified_diff(before, after, "plan", "edited", lineterm="", n=2))


def difference_job(_: object, options: dict[str, list[str]]) -> JsonValue:
    """Return the difference of two plans for a process that does jobs of the server."""
    return [*difference(options["before"], options["after"])]
