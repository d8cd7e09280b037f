"""Which runs a list has, and in which order: as SQL for the journals in databases, and over summaries for others.

A page begins after a run, so that a page costs the same however many are before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, LiteralString

from msgspec import Struct

from teamwright.values.turns.results import RunSummary, Status

RunOrder = Literal["-started", "started", "-seconds", "seconds", "-tokens", "tokens", "-usd", "usd"]
"""What a list of runs is ordered by; with a minus sign, the newest or the largest is first."""
UNSETTLED = frozenset(("running", "interrupted"))
"""Statuses that the driver lock tells apart: the rows of such runs have no status, or `interrupted`."""
_KEYS: dict[str, LiteralString] = {"seconds": "seconds", "tokens": "tokens", "usd": "coalesce(usd, -1)"}


class RunFilter(Struct, frozen=True):
    """Which runs a list has: those of a team, with a status, that stand after the run `after` in this order."""

    team: str | None = None
    status: Status | None = None
    after: str | None = None
    order: RunOrder = "-started"

    def pick(self, runs: Iterable[RunSummary], limit: int | None) -> list[RunSummary]:
        """Return the runs that fit; `runs` are all runs, newest first."""
        descending, key = self.order.startswith("-"), self.order.removeprefix("-")
        ordered = list(runs)[::-1]
        ordered.sort(key=lambda run: _figure(run, key))
        if descending:
            ordered.reverse()
        if self.after is not None:
            ids = [run.id for run in ordered]
            ordered = ordered[ids.index(self.after) + 1 :] if self.after in ids else []
        return [run for run in ordered if self.matches(run)][:limit]

    def matches(self, run: RunSummary) -> bool:
        """Whether a run has the team and the status."""
        return (self.team is None or run.team == self.team) and (self.status is None or run.status == self.status)

    def clauses(self, limit: int | None) -> tuple[LiteralString, list[str | int]]:
        """The SQL after `FROM runs` that selects runs that are no children, and its parameters.

        A status that the driver lock tells selects all runs that may have it, without a limit: the caller picks those
        that match.
        """
        key = _KEYS.get(self.order.removeprefix("-"))
        compare, direction = ("<", "DESC") if self.order.startswith("-") else (">", "ASC")
        which: LiteralString = "WHERE parent = ''"
        parameters: list[str | int] = []
        if self.team is not None:
            which += " AND team = ?"
            parameters.append(self.team)
        if self.status in UNSETTLED:
            which += " AND (status IS NULL OR status = 'interrupted')"
        elif self.status is not None:
            which += " AND status = ?"
            parameters.append(self.status)
        if self.after is not None:
            columns: LiteralString = "place" if key is None else f"{key}, place"
            which += f" AND ({columns}) {compare} (SELECT {columns} FROM runs WHERE id = ?)"
            parameters.append(self.after)
        which += f" ORDER BY {'' if key is None else f'{key} {direction}, '}place {direction}"
        if limit is not None and self.status not in UNSETTLED:
            which += " LIMIT ?"
            parameters.append(limit)
        return which, parameters


def _figure(run: RunSummary, key: str) -> float:
    """What a run is ordered by; runs that are equal stay in the order of their starts."""
    match key:
        case "seconds":
            return run.seconds
        case "tokens":
            return run.total_tokens
        case "usd":
            return -1 if run.usd is None else run.usd
        case _:
            return 0


ALL_RUNS = RunFilter()
"""All runs, newest first."""
