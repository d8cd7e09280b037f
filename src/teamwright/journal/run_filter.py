"""Which runs a list has, and in which order: as SQL for the journals in databases, and over summaries for others.

A page begins after a run, so that a page costs the same however many are before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, LiteralString, NamedTuple, get_args

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

    def clauses(self, limit: int | None) -> tuple[LiteralString, list[str | float]]:
        """The SQL after `FROM runs` that selects runs that are no children, and its parameters.

        A status that the driver lock tells selects all runs that may have it, without a limit: the caller picks those
        that match.
        """
        key = _KEYS.get(self.order.removeprefix("-"))
        compare, direction = ("<", "DESC") if self.order.startswith("-") else (">", "ASC")
        which: LiteralString = "WHERE parent = ''"
        parameters: list[str | float] = []
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


class RunKind(NamedTuple):
    """A status of runs; `done` says whether they stopped because their work was done, where that matters."""

    status: Status
    done: bool | None = None


EVERY_KIND = tuple(RunKind(status) for status in get_args(Status))


class RecentRuns(Struct, frozen=True):
    """The runs of a team that are no children, the one whose status has changed last first.

    `kinds` has to name both or none of `UNSETTLED`, which rows don't tell apart. `since` is the earliest time of a
    change, and `before` the time and the id of the run that the page before ended with.
    """

    team: str
    kinds: tuple[RunKind, ...] = EVERY_KIND
    since: float = 0.0
    before: tuple[float, str] | None = None

    def pick(self, runs: Iterable[RunSummary], limit: int | None) -> list[RunSummary]:
        """Return the runs that fit, at most `limit`; `runs` are all runs."""
        fitting = [run for run in runs if not run.parent and self.matches(run)]
        if self.before is not None:
            fitting = [run for run in fitting if (run.since, run.id) < self.before]
        fitting.sort(key=lambda run: (run.since, run.id), reverse=True)
        return fitting[:limit]

    def count(self, runs: Iterable[RunSummary]) -> int:
        """Return how many runs fit, whatever page is asked for; `runs` are all runs."""
        return len(RecentRuns(self.team, self.kinds, self.since).pick(runs, None))

    def matches(self, run: RunSummary) -> bool:
        """Whether a run is of the team and of one of the kinds, and has changed since."""
        done = run.stop_reason == "done"
        fits = any(kind.status == run.status and kind.done in (None, done) for kind in self.kinds)
        return fits and run.team == self.team and run.since >= self.since

    def clauses(self, limit: int | None) -> tuple[LiteralString, list[str | float]]:
        """The SQL after `FROM runs` that selects a page, and its parameters.

        Each kind is a walk along an index that ends after `limit` rows, so that a page costs the same however many runs
        there are.
        """
        walks: list[LiteralString] = []
        parameters: list[str | float] = []
        bound: LiteralString = "" if limit is None else " LIMIT ?"
        bounds = [] if limit is None else [limit]
        for kind in self.kinds:
            which, given = self._of_kind(kind)
            walk: LiteralString = "SELECT place FROM (SELECT place FROM runs WHERE " + which
            walks.append(walk + " ORDER BY since DESC, id DESC" + bound + ") AS walk")
            parameters += [*given, *bounds]
        union: LiteralString = " UNION ALL ".join(walks)
        return "WHERE place IN (" + union + ") ORDER BY since DESC, id DESC" + bound, [*parameters, *bounds]

    def count_clauses(self) -> tuple[LiteralString, list[str | float]]:
        """The SQL after `FROM runs` that selects all of them, whatever page is asked for, and its parameters."""
        counted = [RecentRuns(self.team, (kind,), self.since)._of_kind(kind) for kind in self.kinds]
        which: LiteralString = " OR ".join(clause for clause, _ in counted)
        return "WHERE " + which, [one for _, given in counted for one in given]

    def _of_kind(self, kind: RunKind) -> tuple[LiteralString, list[str | float]]:
        which: LiteralString = "(parent = '' AND team = ?"
        given: list[str | float] = [self.team]
        if kind.status == "running":
            which += " AND status IS NULL"
        else:
            which += " AND status = ?"
            given.append(kind.status)
        if kind.done is not None:
            which += " AND stop_reason = 'done'" if kind.done else " AND coalesce(stop_reason, '') <> 'done'"
        which += " AND since >= ?"
        given.append(self.since)
        if self.before is not None:
            which += " AND (since, id) < (?, ?)"
            given += self.before
        return which + ")", given
