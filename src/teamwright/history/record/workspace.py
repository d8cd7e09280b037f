"""Every version of every value that a run shares, in the order of its record.

A reader looks at a point of that order, never at "now": so a value that others have written since is seen at the same
point of a run and of its replay.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple

from pydantic import JsonValue

from teamwright.values.turns.artifacts import Held

LATEST = float("inf")
"""After everything."""


class _Version(NamedTuple):
    number: int
    held: Held


class Store:
    """Values by name. Versions count from one; each was written by the event of a given number."""

    def __init__(self) -> None:
        self._values: dict[str, list[_Version]] = {}

    def write(self, name: str, value: JsonValue, *, by: str, number: int) -> int:
        """Add a version and return its count; numbers only grow."""
        versions = self._values.setdefault(name, [])
        versions.append(_Version(number, Held(value=value, version=len(versions) + 1, by=by)))
        return len(versions)

    def get(self, name: str, at: float = LATEST) -> Held | None:
        """The value as of the event with this number."""
        versions = self._values.get(name, ())
        index = bisect_right(versions, at, key=attrgetter("number"))
        return versions[index - 1].held if index else None

    def names(self, at: float = LATEST) -> list[str]:
        """What had been written by then, in order of the alphabet."""
        return sorted(name for name, versions in self._values.items() if versions[0].number <= at)
