"""The rows of one commit, gathered from its batches, the statement that inserts them all at once, and what the driver
session knows of a run: its last saved status, the events since, and the bodies it refers to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import LiteralString

from teamwright.journal.codec import references, to_row
from teamwright.journal.postgres.driver_connection import Statement
from teamwright.journal.postgres.tenant_budgets import reserve_parameters
from teamwright.journal.protocol import STATUS_FACTS, Batch, RunStatus
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event, fold

STATUS_COLUMNS: LiteralString = (
    "number, team, started, status, stop_reason, tokens, usd, seconds, since, last, conversation, parent, driver"
)
"""The columns of a run's status, in the order of `RunStatus`."""
MOST_ROWS = 4
"""The most rows of one table that a statement for a single batch names one by one; each number is a statement."""

_INTO_EVENTS = "INSERT INTO events (run, number, time, scope, place, kind, data, version)"
_EVENT_TYPES = ("text", "bigint", "float8", "text", "text", "text", "text", "bigint", "bigint")
"""The columns of an event, and last the number of the event that must be there before it, if any."""
_AFTER_PREVIOUS = (
    "SELECT run, CASE WHEN previous IS NULL OR EXISTS (SELECT FROM events AS other WHERE other.run = new.run"
    " AND other.number = new.previous) THEN number END, time, scope, place, kind, data, version FROM {rows}"
    " AS new (run, number, time, scope, place, kind, data, version, previous)"
)
"""The rows of events. One whose predecessor is gone has no number, which its column rejects: a gap can't be written."""
_FIRST_NUMBER = (
    "CASE WHEN $2::bigint = 1 OR EXISTS (SELECT FROM events WHERE run = $1 AND number = $2::bigint - 1)"
    " THEN $2::bigint END"
)
"""The number of the first event of a statement for a single batch, rejected in the same way."""
_EVENT_FORMATS = (0, 0, 1, 1, 1, 1, 0)
"""The formats of the columns of an event, except its run. Texts are sent as bytes: others wrote them."""
_STATUS_TYPES = (
    "text", "bigint", "text", "float8", "text", "text", "bigint", "float8", "float8", "float8", "float8", "text",
    "text", "text",
)  # fmt: skip
_INTO_STATUSES = f"INSERT INTO runs (id, {STATUS_COLUMNS})"
_NEWER_STATUS = (
    f" ON CONFLICT (id) DO UPDATE SET ({STATUS_COLUMNS}) = (excluded.number, excluded.team, excluded.started,"
    " excluded.status, excluded.stop_reason, excluded.tokens, excluded.usd, excluded.seconds, excluded.since,"
    " excluded.last, excluded.conversation, excluded.parent, excluded.driver)"
)


class CommitRows:
    """The rows of several batches, or of one that has many."""

    def __init__(self) -> None:
        self._events: list[tuple[str, int, float, str, str, str, str, int | None, int | None]] = []
        self._runs: set[str] = set()
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
            number, time, scope, place, kind, data, version, _ = to_row(event.number, event, None)
            previous = number - 1 if number > 1 and run_id not in self._runs else None
            self._runs.add(run_id)
            self._events.append((run_id, number, time, scope, place, kind, data, version, previous))
            used.update(references(data))
        used.update(batch.bodies)
        used.difference_update(known)
        self._bodies.update(batch.bodies)
        self._uses.update(dict.fromkeys((run_id, body) for body in used))
        return used

    def save(self, run_id: str, status: RunStatus) -> None:
        """Add the status of a run; Postgres stores no NUL in texts."""
        columns = (one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in status.columns())
        self._statuses.append((run_id, *columns))

    def statement(self, *, is_new: bool = False) -> Statement:
        """One statement for all rows, as one array per column: it succeeds or fails as a whole, in one round trip.

        That of a run that `is_new` inserts its status and never changes one, which takes less rights.
        """
        parameters: list[bytes | None] = []
        parts: list[str] = []

        def unnest(rows: Iterable[tuple[object, ...]], types: Sequence[str]) -> str:
            first = len(parameters) + 1
            parameters.extend(_array(column) for column in zip(*rows, strict=True))
            return f"unnest({', '.join(f'${first + index}::{one}[]' for index, one in enumerate(types))})"

        if self._bodies:
            rows = unnest(self._bodies.items(), ("text", "text"))
            parts.append(f"bodies AS (INSERT INTO bodies SELECT * FROM {rows} ORDER BY 1 ON CONFLICT DO NOTHING)")
        if self._uses:
            rows = unnest(self._uses, ("text", "text"))
            parts.append(f"uses AS (INSERT INTO body_uses SELECT * FROM {rows} ORDER BY 2, 1 ON CONFLICT DO NOTHING)")
        if self._statuses:
            rows = unnest(self._statuses, _STATUS_TYPES)
            parts.append(f"statuses AS ({_INTO_STATUSES} SELECT * FROM {rows}{'' if is_new else _NEWER_STATUS})")
        text = f"{_INTO_EVENTS} {_AFTER_PREVIOUS.format(rows=unnest(self._events, _EVENT_TYPES))}"
        if self._claims:
            parts.append(f"events AS ({text})")
            rows = unnest(self._claims, ("text", "text", "numeric", "numeric"))
            text = f"SELECT reserve_budget(run, budget, usd, tokens) FROM {rows} AS claims (run, budget, usd, tokens)"
        return Statement(_with(parts, text), parameters, (0,) * len(parameters))


def small_statement(batch: Batch, known: Collection[Body]) -> tuple[Statement, set[Body]] | None:
    """The statement that inserts a batch of few rows, and the bodies that it refers to beside those in `known`.

    Its rows are single values, which take half as long as arrays, here and in Postgres. Returns `None` for a batch with
    more rows, or with a claim.
    """
    events, bodies, used = batch.events, batch.bodies, set[Body](batch.bodies)
    if batch.claim is not None or max(len(events), len(bodies)) > MOST_ROWS:
        return None
    parameters: list[bytes | None] = [batch.run_id.encode()]
    for event in events:
        number, time, scope, place, kind, data, version, _ = to_row(event.number, event, None)
        used.update(references(data))
        parameters += (
            b"%d" % number, repr(time).encode(), scope.encode(), place.encode(), kind.encode(), data.encode(),
            None if version is None else b"%d" % version,
        )  # fmt: skip
    used.difference_update(known)
    if len(used) > MOST_ROWS:
        return None
    # All processes insert bodies in this order, so none waits for another in a circle.
    for body in sorted(bodies):
        parameters += (body.encode(), bodies[body].encode())
    parameters += [body.encode() for body in sorted(used)]
    text, formats = _small_text(len(events), len(bodies), len(used))
    return Statement(text, parameters, formats), used


def commit_statement(
    batches: Sequence[Batch], runs: Mapping[str, DrivenRun], is_held: Callable[[str], bool]
) -> Statement:
    """The statement that inserts batches of these runs, which take them in.

    It saves the status of a run where that is due, and always if the run's driver lock is not held here.
    """

    def saves_status(batch: Batch) -> bool:
        return runs[batch.run_id].is_due(batch.events) or not is_held(batch.run_id)

    if len(batches) == 1 and not saves_status(batch := batches[0]):
        run = runs[batch.run_id]
        if (found := small_statement(batch, run.bodies)) is not None:
            statement, used = found
            run.add(batch, used)
            return statement
    rows = CommitRows()
    due: set[str] = set()
    for batch in batches:
        run = runs[batch.run_id]
        if saves_status(batch):
            due.add(batch.run_id)
        run.add(batch, rows.add(batch, run.bodies))
    for run_id in due:
        rows.save(run_id, runs[run_id].save())
    return rows.statement()


def first_commit(batch: Batch) -> tuple[str, list[str]]:
    """The statement that inserts a new run with its first batch, as psycopg takes it, and its parameters."""
    rows, status = CommitRows(), RunStatus()
    rows.add(batch, ())
    fold(batch.events, status)
    rows.save(batch.run_id, status)
    statement = rows.statement(is_new=True)
    return re.sub(r"\$\d+", "%s", statement.text), [one.decode() for one in statement.parameters if one is not None]


@cache
def _small_text(events: int, bodies: int, uses: int) -> tuple[str, Sequence[int]]:
    """The statement that inserts so many rows of each table, all of one run, and the formats of its parameters."""
    number = iter(range(2, 1 << 16))

    def values(rows: int, columns: int, first: str = "") -> str:
        return ", ".join(f"({first}{', '.join(f'${next(number)}' for _ in range(columns))})" for _ in range(rows))

    text = f"{_INTO_EVENTS} VALUES {values(events, len(_EVENT_FORMATS), '$1, ')}".replace("$2", _FIRST_NUMBER, 1)
    parts: list[str] = []
    if bodies:
        parts.append(f"bodies AS (INSERT INTO bodies VALUES {values(bodies, 2)} ON CONFLICT DO NOTHING)")
    if uses:
        parts.append(f"uses AS (INSERT INTO body_uses VALUES {values(uses, 1, '$1, ')} ON CONFLICT DO NOTHING)")
    return _with(parts, text), (1, *events * _EVENT_FORMATS, *(2 * bodies + uses) * (1,))


def _with(parts: Sequence[str], text: str) -> str:
    return f"WITH {', '.join(parts)} {text}" if parts else text


def _array(column: Iterable[object]) -> bytes:
    """A column as the text of an array. A NUL cuts the text off, and Postgres rejects what is left."""
    return f"{{{','.join([_item(one) for one in column])}}}".encode()


def _item(value: object) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return "NULL" if value is None else str(value)


UNSAVED = 250
"""The most events since a run's status was saved; readers fold these to get its current status."""
KNOWN_BODIES = 10_000
"""The most bodies that are remembered as referred to; a reference that is stored twice does no harm."""


@dataclass(slots=True)
class DrivenRun:
    """The state of one run in the database, as of its last commit."""

    status: RunStatus
    unsaved: list[Event]
    is_new: bool = False
    bodies: set[Body] = field(default_factory=set[Body])

    def is_due(self, events: Sequence[Event]) -> bool:
        """Whether to save the run's status with these events: when it changes, and after many events."""
        if self.is_new or len(self.unsaved) >= UNSAVED:
            return True
        return any(event.fact.__class__ in STATUS_FACTS for event in events)

    def add(self, batch: Batch, used: set[Body]) -> None:
        """Take in a batch that is being committed."""
        self.unsaved += batch.events
        if len(self.bodies) + len(used) > KNOWN_BODIES:
            self.bodies.clear()
        self.bodies |= used

    def save(self) -> RunStatus:
        """Return the status after all events, which is being saved."""
        fold(self.unsaved, self.status)
        self.unsaved, self.is_new = [], False
        return self.status
