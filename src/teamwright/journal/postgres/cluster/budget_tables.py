"""The tables of tenants' budgets, and the functions that alone change them.

Invariant: for each budget, what was spent in the present period and what runs hold reserved is at most the budget, but
for what a provider reported beyond a reservation, and unless the operator has lowered the budget since. A function
locks the row of a budget, and takes the time from the server. Money is in picodollars. A role that may submit runs may
reserve and settle within a budget, and change no budget itself.
"""

from __future__ import annotations

from typing import LiteralString

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
