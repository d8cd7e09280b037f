"""The difference between two plans, as people read it. It takes time with the square of their length at worst."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence

from pydantic import JsonValue

FEW_LINES = 400
"""Plans with fewer lines are compared at once, longer ones in a process of the lab."""


def lines_of(plan: JsonValue) -> list[str]:
    """Return a plan as lines of JSON."""
    return json.dumps(plan, indent=2, ensure_ascii=False).splitlines()


def difference(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the difference of two plans as a unified diff."""
    return list(difflib.unified_diff(before, after, "plan", "edited", lineterm="", n=2))
