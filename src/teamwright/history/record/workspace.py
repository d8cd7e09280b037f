"""All versions of all shared values of a run, in journal order.

A reader reads as of an event number, never "now", so that a run and its replay see the same version at the same point.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple

from pydantic import JsonValue

from teamwright.values.turns.artifacts import SharedValue

LATEST = float("inf")
"""After every event."""


class _Version(NamedTuple):
    number: int
    held: SharedValue


class Store:
    """Values by name, multi-version. Versions count from one; each has the number of the event that wrote it."""

    def __init__(self) -> None:
        self._values: dict[str, list[_Version]] = {}

    def write(self, name: str, value: JsonValue, *, by: str, number: int) -> int:
        """Add a version and return its count; event numbers only grow."""
        versions = self._values.setdefault(name, [])
        versions.append(_Version(number, SharedValue(value=value, version=len(versions) + 1, by=by)))
        return len(versions)

    def get(self, name: str, at: float = LATEST) -> SharedValue | None:
        """The value as of the event with this number; None where it did not exist."""
        versions = self._values.get(name, ())
        index = bisect_right(versions, at, key=attrgetter("number"))
        return versions[index - 1].held if index else None

    def names(self, at: float = LATEST) -> list[str]:
        """The names that existed as of this event, sorted."""
        return sorted(name for name, versions in self._values.items() if versions[0].number <= at)
