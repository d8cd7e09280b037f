"""The rows of one commit, gathered from its batches, and the statement that inserts them all at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import LiteralString

from teamwright.journal.encoder import references, to_row
from teamwright.journal.postgres.budgets import RESERVE, reserve_parameters
from teamwright.journal.protocol import Batch
from teamwright.journal.run_status import RunStatus
from teamwright.values.events.body import Body
from teamwright.values.events.fold import fold

_EVENTS: LiteralString = (
    "INSERT INTO events (run, number, time, scope, place, kind, data, version) SELECT * FROM unnest"
    "(%s::text[], %s::bigint[], %s::float8[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])"
)
_BODIES: LiteralString = (
    "INSERT INTO bodies SELECT * FROM unnest(%s::text[], %s::text[]) ORDER BY 1 ON CONFLICT DO NOTHING"
)
_USES: LiteralString = (
    "INSERT INTO body_uses SELECT * FROM unnest(%s::text[], %s::text[]) ORDER BY 2, 1 ON CONFLICT DO NOTHING"
)
STATUS_COLUMNS: LiteralString = (
    "number, team, started, status, stop_reason, tokens, usd, seconds, since, last, conversation"
)
"""The columns of a run's status, in the order of `RunStatus`."""
_STATUSES: LiteralString = (
    f"INSERT INTO runs (id, {STATUS_COLUMNS}) SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::float8[],"
    " %s::text[], %s::text[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::text[])"
    f" ON CONFLICT (id) DO UPDATE SET ({STATUS_COLUMNS}) = (excluded.number, excluded.team, excluded.started,"
    " excluded.status, excluded.stop_reason, excluded.tokens, excluded.usd, excluded.seconds, excluded.since,"
    " excluded.last, excluded.conversation)"
)


class CommitRows:
    """The rows of several batches, column by column."""

    def __init__(self) -> None:
        self._events: list[tuple[object, ...]] = []
        self._bodies: dict[Body, str] = {}
        self._uses: dict[tuple[str, Body], None] = {}
        self._statuses: list[tuple[object, ...]] = []
        self._claims: list[tuple[object, ...]] = []

    def add(self, batch: Batch, known: Collection[Body]) -> set[Body]:
        """Add a batch; return the bodies it refers to that its run, which refers to those in `known`, did not."""
        run_id, used = batch.run_id, set[Body]()
        if batch.claim is not None:
            self._claims.append(reserve_parameters(run_id, batch.claim))
        for event in batch.events:
            row = to_row(event.number, event, None)
            self._events.append((run_id, *row[:-1]))
            used.update(references(row[5]))
        used.update(batch.bodies)
        used.difference_update(known)
        self._bodies.update(batch.bodies)
        self._uses.update(dict.fromkeys((run_id, body) for body in used))
        return used

    def save(self, run_id: str, status: RunStatus) -> None:
        """Add the status of a run; Postgres stores no NUL in texts."""
        columns = (one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in status.columns())
        self._statuses.append((run_id, *columns))

    def statement(self) -> tuple[LiteralString, list[object]]:
        """One statement for all rows, and its parameters: it succeeds or fails as a whole, in one round trip."""
        parts: LiteralString = ""
        parameters: list[object] = []
        if self._bodies:
            parts += f"bodies AS ({_BODIES}), "
            parameters += _columns(self._bodies.items())
        if self._uses:
            parts += f"uses AS ({_USES}), "
            parameters += _columns(self._uses)
        if self._statuses:
            parts += f"statuses AS ({_STATUSES}), "
            parameters += _columns(self._statuses)
        parameters += _columns(self._events)
        if not self._claims:
            return f"WITH {parts} events AS ({_EVENTS}) SELECT 1" if parts else _EVENTS, parameters
        claims: LiteralString = RESERVE
        for _ in self._claims[1:]:
            claims += f", {RESERVE}"
        return f"WITH {parts} events AS ({_EVENTS}) SELECT {claims}", [*parameters, *chain(*self._claims)]


def first_commit(batch: Batch) -> tuple[LiteralString, list[object]]:
    """The statement that inserts a new run with its first batch, and its parameters."""
    rows, status = CommitRows(), RunStatus()
    rows.add(batch, ())
    fold(batch.events, status)
    rows.save(batch.run_id, status)
    return rows.statement()


def _columns(rows: Iterable[tuple[object, ...]]) -> list[Sequence[object]]:
    return [list(column) for column in zip(*rows, strict=True)]
