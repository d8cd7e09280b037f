"""Reads how fast models are called by all processes that share a journal; it changes nothing."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from teamwright.journal.postgres.connection import Connection

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
