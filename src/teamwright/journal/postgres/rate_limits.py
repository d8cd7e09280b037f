"""Rate limits that processes share: their tables, the function that renews the shares of a process, and its calls.

Invariants, for each model, at every instant of the server's clock: the slots held by all processes are at most the
declared concurrency, and what was granted within any sixty seconds is at most the declared requests and tokens. The
function locks the row of a model, so renewals of one model happen one after another, and it alone changes these tables.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import LiteralString, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from teamwright.journal.postgres.connection import Connection, DatabaseAddress, connect, cut, translated_errors
from teamwright.values.value import JsonValue

PACE_TABLES: LiteralString = """
    -- `model` is a digest. `seen` is the last renewal of any share; `ceiling` is the concurrency after a provider asked
    -- to slow down, at `slowed`; nobody calls the model before `cooldown`.
    CREATE TABLE paces (
        model text PRIMARY KEY, name text NOT NULL, seen timestamptz NOT NULL, cooldown timestamptz,
        ceiling float8, slowed timestamptz
    );

    -- The share of a process. The first three are the pace that it declares. It may have `held` calls in flight at
    -- most, and wants `want`; `waiting` calls with `waiting_tokens` wait, the first with `head`. Processes that want
    -- calls are served in the order of `queued`; the first one since `served`.
    CREATE TABLE pace_shares (
        model text NOT NULL, holder text NOT NULL, concurrency bigint, requests bigint, tokens bigint,
        sequence bigint NOT NULL, held int NOT NULL, in_flight int NOT NULL, want int NOT NULL, waiting int NOT NULL,
        head bigint NOT NULL, waiting_tokens bigint NOT NULL, queued timestamptz, served timestamptz,
        expires timestamptz NOT NULL,
        PRIMARY KEY (model, holder)
    );

    -- Requests and tokens that a process may use, or has used, before `ends`.
    CREATE TABLE pace_grants (
        model text NOT NULL, holder text NOT NULL, number bigint NOT NULL, requests bigint NOT NULL,
        tokens bigint NOT NULL, ends timestamptz NOT NULL, PRIMARY KEY (model, holder, number)
    );

    -- What a process is entitled to: an equal part, but the first in the queue at least what its next call needs.
    CREATE FUNCTION pace_part(most bigint, demanding bigint, head bigint, is_first boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE WHEN is_first THEN one.part ELSE (most - one.part) / greatest(demanding - 1, 1) END
        FROM (SELECT greatest(most / greatest(demanding, 1), least(head, most)) AS part) AS one
    $$;

    CREATE FUNCTION renew_pace(caller text, number bigint, asked jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
    DECLARE
        one jsonb;
        given jsonb := '[]';
    BEGIN
        FOR one IN SELECT value FROM jsonb_array_elements(asked) ORDER BY value->>'model' LOOP
            given := given || renew_share(caller, number, one);
        END LOOP;
        RETURN given;
    END $$;

    CREATE FUNCTION renew_share(caller text, renewal bigint, ask jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
    DECLARE
        id text := ask->>'model';
        lease CONSTANT interval := '4 seconds';
        pace paces;
        own pace_shares;
        leader pace_shares;
        moment timestamptz;
        demanding bigint;
        total bigint; claims bigint; target bigint;
        slots bigint; most_requests bigint; most_tokens bigint;
        granted bigint; new_requests bigint; new_tokens bigint;
        used_requests bigint; used_tokens bigint; own_requests bigint; own_tokens bigint;
        request_claims bigint; token_claims bigint;
        flying bigint;
        is_served boolean;
    BEGIN
        INSERT INTO paces (model, name, seen) VALUES (id, ask->>'name', clock_timestamp()) ON CONFLICT DO NOTHING;
        SELECT * INTO pace FROM paces WHERE model = id FOR UPDATE;
        moment := clock_timestamp();
        -- While nobody could renew, because the server was down, no lease runs out.
        IF moment > pace.seen + interval '2 seconds' THEN
            UPDATE pace_shares SET expires = expires + (moment - pace.seen - interval '2 seconds') WHERE model = id;
        END IF;
        pace.seen := moment;
        DELETE FROM pace_shares WHERE model = id AND expires < moment AND holder <> caller;
        DELETE FROM pace_grants WHERE model = id AND ends < moment - interval '60 seconds';

        SELECT * INTO own FROM pace_shares WHERE model = id AND holder = caller;
        IF own.sequence >= renewal THEN  -- a statement that was given up and arrives late
            RETURN '[]'::jsonb;
        END IF;
        own.model := id; own.holder := caller; own.sequence := renewal; own.expires := moment + lease;
        own.concurrency := (ask->>'concurrency')::bigint;
        own.requests := (ask->>'requests')::bigint;
        own.tokens := (ask->>'tokens')::bigint;
        own.in_flight := (ask->>'in_flight')::int;
        own.held := greatest(least(coalesce(own.held, 0), (ask->>'held')::int), own.in_flight);
        own.want := (ask->>'want')::int;
        own.waiting := (ask->>'waiting')::int;
        own.head := (ask->>'head')::bigint;
        own.waiting_tokens := (ask->>'waiting_tokens')::bigint;
        own.queued := CASE WHEN own.want > 0 THEN coalesce(own.queued, moment) END;
        own.served := CASE WHEN own.want > 0 THEN own.served END;
        DELETE FROM pace_shares WHERE model = id AND holder = caller;
        INSERT INTO pace_shares SELECT own.*;
        UPDATE pace_grants SET requests = (used->>1)::bigint, tokens = (used->>2)::bigint, ends = least(ends, moment)
            FROM jsonb_array_elements(ask->'used') AS used
            WHERE model = id AND holder = caller AND pace_grants.number = (used->>0)::bigint;

        SELECT min(concurrency), min(requests), min(tokens), count(*) FILTER (WHERE want > 0), sum(held), sum(in_flight)
            INTO slots, most_requests, most_tokens, demanding, total, flying FROM pace_shares WHERE model = id;
        SELECT * INTO leader FROM pace_shares WHERE model = id AND want > 0 ORDER BY queued, holder LIMIT 1;

        -- A provider that asked one process to slow down slows all: half as many calls, one more for each four answers.
        IF ask->>'throttled' IS NOT NULL THEN
            pace.cooldown := greatest(pace.cooldown, moment + (ask->>'throttled')::float8 * interval '1 second');
            IF slots IS NOT NULL AND (pace.slowed IS NULL OR moment > pace.slowed + interval '1 second') THEN
                pace.ceiling := greatest(1, least(coalesce(pace.ceiling, slots), flying + 1) / 2);
                pace.slowed := moment;
            END IF;
        ELSE
            pace.ceiling := pace.ceiling + 0.25 * (ask->>'answers')::int;
        END IF;
        IF slots IS NULL OR pace.ceiling >= slots THEN
            pace.ceiling := NULL;
        END IF;
        slots := least(slots, floor(pace.ceiling)::bigint);

        -- Slots: a share that is too large is lowered first, and counts until its holder has said that it holds less.
        IF slots IS NOT NULL THEN
            SELECT coalesce(sum(greatest(held, least(want, pace_part(slots, demanding, 1, holder = leader.holder)))), 0)
                INTO claims FROM pace_shares WHERE model = id AND holder <> caller;
            target := least(
                own.want,
                greatest(pace_part(slots, demanding, 1, caller IS NOT DISTINCT FROM leader.holder), slots - claims)
            );
            IF target > own.held THEN
                own.held := own.held + greatest(0, least(target - own.held, slots - total));
                granted := own.held;
            ELSE
                granted := greatest(target, 0);
            END IF;
        END IF;

        -- Requests and tokens: what others were granted in the last minute stays theirs.
        SELECT coalesce(sum(used.requests), 0), coalesce(sum(used.tokens), 0),
            coalesce(sum(used.requests) FILTER (WHERE used.holder = caller), 0),
            coalesce(sum(used.tokens) FILTER (WHERE used.holder = caller), 0)
            INTO used_requests, used_tokens, own_requests, own_tokens FROM pace_grants AS used WHERE model = id;
        SELECT
            sum(greatest(requests, least(requests + waiting, pace_part(most_requests, demanding, 1, is_first)))),
            sum(greatest(tokens, least(tokens + wanted, pace_part(most_tokens, demanding, leader.head, is_first))))
            INTO request_claims, token_claims FROM (
                SELECT coalesce(used.requests, 0) AS requests, coalesce(used.tokens, 0) AS tokens,
                    coalesce(share.waiting, 0) AS waiting, coalesce(share.waiting_tokens, 0) AS wanted,
                    holder IS NOT DISTINCT FROM leader.holder AS is_first
                FROM (SELECT holder, waiting, waiting_tokens FROM pace_shares WHERE model = id) AS share
                FULL JOIN (
                    SELECT holder, sum(requests)::bigint AS requests, sum(tokens)::bigint AS tokens FROM pace_grants
                    WHERE model = id GROUP BY holder
                ) AS used USING (holder) WHERE holder <> caller
            ) AS other;
        IF most_requests IS NOT NULL THEN
            target := greatest(
                pace_part(most_requests, demanding, 1, caller IS NOT DISTINCT FROM leader.holder),
                most_requests - coalesce(request_claims, 0)
            ) - own_requests;
            new_requests := greatest(0, least(own.waiting, target, most_requests - used_requests));
        END IF;
        IF most_tokens IS NOT NULL THEN
            target := greatest(
                pace_part(most_tokens, demanding, leader.head, caller IS NOT DISTINCT FROM leader.holder),
                most_tokens - coalesce(token_claims, 0)
            ) - own_tokens;
            new_tokens := greatest(0, least(own.waiting_tokens, target, most_tokens - used_tokens));
        END IF;
        IF granted = 0 OR own.waiting = 0 OR new_requests = 0 OR new_tokens < least(own.head, most_tokens) THEN
            new_requests := new_requests * 0;
            new_tokens := new_tokens * 0;
        END IF;
        IF new_requests > 0 OR new_tokens > 0 THEN
            INSERT INTO pace_grants
                VALUES (id, caller, renewal, coalesce(new_requests, 0), coalesce(new_tokens, 0), moment + lease);
        END IF;

        -- The first in the queue goes to its end a second after it was served.
        is_served := coalesce(granted, 1) > 0 AND (own.waiting = 0 OR coalesce(new_requests, new_tokens, 1) > 0);
        IF demanding > 1 AND leader.holder = caller THEN
            IF own.served < moment - interval '1 second' THEN
                own.queued := moment;
                own.served := NULL;
            ELSIF is_served THEN
                own.served := coalesce(own.served, moment);
            END IF;
        END IF;
        UPDATE paces SET seen = pace.seen, cooldown = pace.cooldown, ceiling = pace.ceiling, slowed = pace.slowed
            WHERE model = id;
        IF own.held = 0 AND own.want = 0 THEN
            DELETE FROM pace_shares WHERE model = id AND holder = caller;
        ELSE
            UPDATE pace_shares SET held = own.held, queued = own.queued, served = own.served
                WHERE model = id AND holder = caller;
        END IF;
        RETURN jsonb_build_array(jsonb_build_object(
            'model', id, 'slots', granted, 'requests', new_requests, 'tokens', new_tokens, 'most_tokens', most_tokens,
            'cooldown', greatest(0, extract(epoch FROM pace.cooldown - moment)), 'contended', demanding > 1
        ));
    END $$;
"""


RENEWAL_SECONDS = 2.0
"""How long a renewal may take before its connection counts as lost."""


class PostgresPaces:
    """Renews shares over a connection of its own, so that slow reads never delay a renewal."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._connection: Connection | None = None

    async def connect(self) -> None:
        """Connect, unless it is connected; raises `JournalError`."""
        with translated_errors(self._address):
            if self._connection is None:
                self._connection = await connect(self._address)

    async def renew(self, holder: str, number: int, asked: JsonValue) -> JsonValue:
        """Renew the shares of a process, and return what it is given; raises `JournalError`."""
        with translated_errors(self._address):
            try:
                async with asyncio.timeout(RENEWAL_SECONDS):
                    connection = self._connection = self._connection or await connect(self._address)
                timer = asyncio.get_running_loop().call_later(RENEWAL_SECONDS, cut, connection)
                try:
                    cursor = await connection.execute(
                        "SELECT renew_pace(%s, %s, %s)", (holder, number, Jsonb(asked)), prepare=True
                    )
                    row = await cursor.fetchone()
                finally:
                    timer.cancel()
            except BaseException:
                await self.close()
                raise
        return row[0] if row else []

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()


_PACES: LiteralString = """
    SELECT paces.name, shares.processes, shares.in_flight, shares.waiting,
        coalesce(least(shares.slots, floor(paces.ceiling)::bigint), shares.slots),
        shares.requests, shares.tokens, greatest(0, extract(epoch FROM paces.cooldown - clock_timestamp()))::float8
    FROM paces JOIN (
        SELECT model, count(*) AS processes, sum(in_flight)::bigint AS in_flight,
            coalesce(sum(waiting) FILTER (WHERE head > 0), 0)::bigint AS waiting,  -- else it expects calls
            min(concurrency) AS slots, min(requests) AS requests, min(tokens) AS tokens
        FROM pace_shares WHERE expires > clock_timestamp() GROUP BY model
    ) AS shares ON shares.model = paces.model
    ORDER BY paces.name, paces.model
"""


class ModelPace(NamedTuple):
    """One model that is in use: what all processes do with it, and the limits that hold for all of them together."""

    name: str
    processes: int
    in_flight: int
    waiting: int
    at_once: int | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    cooldown: float | None
    """Seconds until the provider takes calls again, if it asked to wait."""


async def read_paces(connection: Connection) -> list[ModelPace]:
    """Return the models that any living process uses, by name."""
    return [ModelPace(*row) for row in await (await connection.execute(_PACES)).fetchall()]
