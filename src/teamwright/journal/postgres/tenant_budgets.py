"""The budgets of tenants: their tables, the functions that alone change them, and the calls of these functions.

Invariant: for each budget, what was spent in the present period and what runs hold reserved is at most the budget, but
for what a provider reported beyond a reservation, and unless the operator has lowered the budget since. A function
locks the row of a budget, and takes the time from the server. Money is in picodollars. A role that may submit runs may
reserve and settle within a budget, and change no budget itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import LiteralString

from psycopg import Error

from teamwright.errors import BudgetUnavailable
from teamwright.journal.postgres.connection import Connection, UseConnection
from teamwright.journal.tenant_budgets import BudgetClaim, Period, TenantBudget, budget_refusal
from teamwright.values.turns.results import FINAL

BUDGET_TABLES: LiteralString = """
    -- A bound that is NULL does not exist. What was spent counts from `since`, the begin of the present period.
    CREATE TABLE budgets (
        name text PRIMARY KEY, usd numeric, tokens numeric, per text NOT NULL, since timestamptz NOT NULL,
        spent_usd numeric NOT NULL, spent_tokens numeric NOT NULL, reserved_usd numeric NOT NULL,
        reserved_tokens numeric NOT NULL
    );

    -- The most that a run may spend, until it is settled; then what it has spent.
    CREATE TABLE budget_reservations (
        run text PRIMARY KEY, budget text NOT NULL, usd numeric, tokens numeric, settled timestamptz,
        spent_usd numeric, spent_tokens numeric
    );
    CREATE INDEX open_reservations ON budget_reservations (budget) WHERE settled IS NULL;
    CREATE INDEX settled_reservations ON budget_reservations (budget, settled) WHERE settled IS NOT NULL;

    CREATE FUNCTION budget_since(per text, moment timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE per WHEN 'ever' THEN '-infinity'
            ELSE date_trunc(per, moment AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' END
    $$;

    CREATE FUNCTION budget_until(per text, moment timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE per WHEN 'ever' THEN NULL
            ELSE (date_trunc(per, moment AT TIME ZONE 'UTC') + ('1 ' || per)::interval) AT TIME ZONE 'UTC' END
    $$;

    -- Lock a budget, and begin a new period if one is due.
    CREATE FUNCTION lock_budget(wanted text) RETURNS budgets LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    DECLARE
        one budgets;
        begun timestamptz;
    BEGIN
        SELECT * INTO one FROM budgets WHERE name = wanted FOR UPDATE;
        begun := budget_since(one.per, clock_timestamp());
        IF one.since < begun THEN
            UPDATE budgets SET since = begun, spent_usd = 0, spent_tokens = 0 WHERE name = wanted RETURNING * INTO one;
        END IF;
        RETURN one;
    END $$;

    CREATE FUNCTION refuse_budget(wanted text, why text, needed numeric, remaining numeric, one budgets) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        RAISE EXCEPTION USING ERRCODE = 'TW001', MESSAGE = 'refused by the budget ' || wanted,
            DETAIL = jsonb_build_object(
                'budget', wanted, 'why', why, 'needed', needed::text, 'left', remaining::text,
                'most', CASE why WHEN 'usd' THEN one.usd WHEN 'tokens' THEN one.tokens END::text,
                'until', to_char(
                    budget_until(one.per, clock_timestamp()) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'
                )
            )::text;
    END $$;

    -- Let a run hold at least these amounts; raises TW001 if the budget has no room for what it does not hold yet.
    CREATE FUNCTION reserve_budget(run_id text, wanted text, most_usd numeric, most_tokens numeric) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    DECLARE
        one budgets := lock_budget(wanted);
        held budget_reservations;
        more_usd numeric;
        more_tokens numeric;
        left_usd numeric := one.usd - one.spent_usd - one.reserved_usd;
        left_tokens numeric := one.tokens - one.spent_tokens - one.reserved_tokens;
    BEGIN
        SELECT * INTO held FROM budget_reservations WHERE run = run_id AND settled IS NULL AND budget = wanted;
        IF one.name IS NULL AND held.run IS NOT NULL THEN  -- the operator has removed it, so it bounds nothing
            RETURN true;
        ELSIF one.name IS NULL THEN
            PERFORM refuse_budget(wanted, 'unknown', NULL, NULL, one);
        END IF;
        more_usd := greatest(coalesce(most_usd, 0) - coalesce(held.usd, 0), 0);
        more_tokens := greatest(coalesce(most_tokens, 0) - coalesce(held.tokens, 0), 0);
        IF held.run IS NULL AND (one.usd IS NOT NULL AND most_usd IS NULL) THEN
            PERFORM refuse_budget(wanted, 'no usd', NULL, NULL, one);
        ELSIF held.run IS NULL AND (one.tokens IS NOT NULL AND most_tokens IS NULL) THEN
            PERFORM refuse_budget(wanted, 'no tokens', NULL, NULL, one);
        ELSIF more_usd > 0 AND more_usd > left_usd THEN
            PERFORM refuse_budget(wanted, 'usd', more_usd, left_usd, one);
        ELSIF more_tokens > 0 AND more_tokens > left_tokens THEN
            PERFORM refuse_budget(wanted, 'tokens', more_tokens, left_tokens, one);
        END IF;
        INSERT INTO budget_reservations (run, budget, usd, tokens) VALUES (run_id, wanted, most_usd, most_tokens)
            ON CONFLICT (run) DO UPDATE SET budget = wanted, usd = greatest(held.usd, most_usd),
            tokens = greatest(held.tokens, most_tokens), settled = NULL, spent_usd = NULL, spent_tokens = NULL;
        UPDATE budgets SET reserved_usd = reserved_usd + more_usd, reserved_tokens = reserved_tokens + more_tokens
            WHERE name = wanted;
        RETURN true;
    END $$;

    -- Replace what a run holds by what it has spent, once; without amounts, by all that it holds.
    CREATE FUNCTION settle_budget(run_id text, used_usd numeric, used_tokens numeric) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    DECLARE
        held budget_reservations;
    BEGIN
        SELECT * INTO held FROM budget_reservations WHERE run = run_id;
        PERFORM lock_budget(held.budget);
        UPDATE budget_reservations SET settled = clock_timestamp(), spent_usd = coalesce(used_usd, usd, 0),
            spent_tokens = coalesce(used_tokens, tokens, 0)
            WHERE run = run_id AND settled IS NULL RETURNING * INTO held;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
        UPDATE budgets SET spent_usd = budgets.spent_usd + held.spent_usd,
            spent_tokens = budgets.spent_tokens + held.spent_tokens,
            reserved_usd = reserved_usd - coalesce(held.usd, 0),
            reserved_tokens = reserved_tokens - coalesce(held.tokens, 0) WHERE name = held.budget;
        RETURN true;
    END $$;
"""


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
        return await self._read(None)

    async def find(self, name: str) -> TenantBudget | None:
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
