"""The budgets of tenants in the database of the journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import LiteralString

from psycopg import Error

from teamwright.errors import BudgetUnavailable
from teamwright.journal.budgets import BudgetClaim, Period, TenantBudget, budget_refusal
from teamwright.journal.postgres.connection import Connection, UseConnection
from teamwright.values.results import FINAL

REFUSED = "TW001"
"""The state of an error that `reserve_budget` raises."""
RESERVE: LiteralString = "reserve_budget(%s, %s, %s, %s)"
"""The call that reserves for a run; its parameters are those of `reserve_parameters`."""

_PUT: LiteralString = """
    WITH sums AS (
        SELECT coalesce(sum(usd) FILTER (WHERE settled IS NULL), 0) AS reserved_usd,
            coalesce(sum(tokens) FILTER (WHERE settled IS NULL), 0) AS reserved_tokens,
            coalesce(sum(spent_usd) FILTER (WHERE settled >= budget_since(%(per)s, clock_timestamp())), 0) AS spent_usd,
            coalesce(sum(spent_tokens) FILTER (WHERE settled >= budget_since(%(per)s, clock_timestamp())), 0)
                AS spent_tokens
        FROM budget_reservations WHERE budget = %(name)s
    )
    INSERT INTO budgets (name, usd, tokens, per, since, spent_usd, spent_tokens, reserved_usd, reserved_tokens)
        SELECT %(name)s, %(usd)s, %(tokens)s, %(per)s, budget_since(%(per)s, clock_timestamp()), spent_usd,
            spent_tokens, reserved_usd, reserved_tokens FROM sums
    ON CONFLICT (name) DO UPDATE SET (usd, tokens, per, since, spent_usd, spent_tokens, reserved_usd, reserved_tokens)
        = (excluded.usd, excluded.tokens, excluded.per, excluded.since, excluded.spent_usd, excluded.spent_tokens,
            excluded.reserved_usd, excluded.reserved_tokens)
"""
_ALL: LiteralString = """
    SELECT name, per, budget_until(per, clock_timestamp()),
        (SELECT count(*) FROM budget_reservations WHERE budget = name AND settled IS NULL), usd, tokens,
        CASE WHEN since < budget_since(per, clock_timestamp()) THEN 0 ELSE spent_usd END,
        CASE WHEN since < budget_since(per, clock_timestamp()) THEN 0 ELSE spent_tokens END,
        reserved_usd, reserved_tokens
    FROM budgets WHERE %(name)s::text IS NULL OR name = %(name)s ORDER BY name COLLATE "C"
"""


class PostgresBudgets:
    """The budgets of one journal."""

    def __init__(self, use: UseConnection) -> None:
        self._use = use

    async def put(self, name: str, usd: int | None, tokens: int | None, per: Period) -> None:
        """Set a budget, or change it; what was spent and reserved is summed up again."""

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                # Waits for reservations in flight, and holds up new ones.
                await connection.execute("LOCK TABLE budgets IN EXCLUSIVE MODE")
                await connection.execute(_PUT, {"name": name, "usd": usd, "tokens": tokens, "per": per})

        await self._use(work)

    async def remove(self, name: str) -> bool:
        """Remove a budget; returns whether there was one."""

        async def work(connection: Connection) -> bool:
            return (await connection.execute("DELETE FROM budgets WHERE name = %s", (name,))).rowcount > 0

        return await self._use(work)

    async def all(self) -> list[TenantBudget]:
        """Return all budgets, by name."""
        return await self._read(None)

    async def find(self, name: str) -> TenantBudget | None:
        """Return the budget of this name, if there is one."""
        return next(iter(await self._read(name)), None)

    async def _read(self, name: str | None) -> list[TenantBudget]:
        async def work(connection: Connection) -> list[TenantBudget]:
            rows = await (await connection.execute(_ALL, {"name": name})).fetchall()
            return [_budget(name, per, until, runs, sums) for name, per, until, runs, *sums in rows]

        return await self._use(work)

    async def reserve(self, run_id: str, claim: BudgetClaim) -> None:
        """Let a run hold at least this much; raises `BudgetUnavailable`."""

        async def work(connection: Connection) -> BudgetUnavailable | None:
            statement: LiteralString = f"SELECT {RESERVE}"
            try:
                await connection.execute(statement, reserve_parameters(run_id, claim))
            except Error as error:
                if (refused := refused_budget(error)) is None:
                    raise
                return refused
            return None

        if (refused := await self._use(work)) is not None:
            raise refused

    async def settle(self, run_id: str, spent: BudgetClaim | None) -> bool:
        """Replace what a run holds by what it has spent, once."""
        used = (None, None) if spent is None else (spent.usd, spent.tokens)

        async def work(connection: Connection) -> bool:
            cursor = await connection.execute("SELECT settle_budget(%s, %s::numeric, %s::numeric)", (run_id, *used))
            row = await cursor.fetchone()
            return row is not None and bool(row[0])

        return await self._use(work)

    async def unsettled(self) -> Sequence[tuple[str, bool]]:
        """Return the runs that hold reservations and have ended or were deleted, and whether their record exists."""

        async def work(connection: Connection) -> list[tuple[str, bool]]:
            cursor = await connection.execute(
                "SELECT run, id IS NOT NULL FROM budget_reservations LEFT JOIN runs ON id = run"
                " WHERE settled IS NULL AND (id IS NULL OR status = ANY(%s::text[]))",
                (sorted(FINAL),),
            )
            return [(run, exists) for run, exists in await cursor.fetchall()]

        return await self._use(work)


def reserve_parameters(run_id: str, claim: BudgetClaim) -> tuple[str, str, Decimal | None, Decimal | None]:
    """The parameters of `RESERVE`."""
    usd, tokens = (None if one is None else Decimal(one) for one in (claim.usd, claim.tokens))
    return run_id, claim.budget, usd, tokens


def refused_budget(error: BaseException | None) -> BudgetUnavailable | None:
    """The error in words if the database has refused a reservation; `None` for any other error."""
    if not isinstance(error, Error) or error.sqlstate != REFUSED:
        return None
    detail = json.loads(error.diag.message_detail or "{}")
    needed, left, most = (int(Decimal(detail.get(name) or 0)) for name in ("needed", "left", "most"))
    return budget_refusal(
        detail.get("budget", ""), detail.get("why", ""), needed, left, most, detail.get("until") or ""
    )


def _budget(
    name: str, per: Period, until: datetime | None, runs: int, amounts: Sequence[Decimal | None]
) -> TenantBudget:
    usd, tokens, *sums = (None if one is None else int(one) for one in amounts)
    spent_usd, spent_tokens, reserved_usd, reserved_tokens = (one or 0 for one in sums)
    return TenantBudget(
        name,
        usd,
        tokens,
        per,
        spent_usd,
        spent_tokens,
        reserved_usd,
        reserved_tokens,
        "" if until is None else until.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        runs,
    )
