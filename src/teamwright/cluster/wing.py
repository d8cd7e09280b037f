"""The wing of many machines: queues, workers, shared limits, and live text over Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.wings import ServerOption, Wing

if TYPE_CHECKING:
    from teamwright.runtime.transport import Transport

RUNS_AT_ONCE = 4
"""How many runs a worker drives at a time, by default. Here, since the help of a command imports no worker."""

WING = Wing(
    name="cluster",
    libraries=("croniter", "dbos", "psycopg", "psycopg_pool", "redis", "sqlalchemy"),
    commands={
        "submit": "teamwright.cluster.submit_command:submit",
        "worker": "teamwright.cluster.worker_command:worker",
        "cluster": "teamwright.cluster.cluster_commands:app",
    },
    hooks={
        "shared_engine": "teamwright.cluster.placement:engine_parts",
        "resubmit_run": "teamwright.cluster.submit_command:resubmit_run",
        "leave_queue": "teamwright.cluster.submit_command:leave_queue",
        "live_transport": "teamwright.cluster.wing:open_redis",
        "routes": "teamwright.cluster.routes:router",
        "operations": "teamwright.cluster.routes:cluster_part",
    },
    servers={
        "--redis": ServerOption(
            "TEAMWRIGHT_REDIS", "Redis, for live text between processes. Goes before or after the command."
        ),
    },
    hints={
        "set_budget": "teamwright cluster budget {name} --max-usd 50 --per day",
        "place_branches": "Engine(url, placement=teamwright.cluster.WorkerPlacement())",
    },
)


def open_redis(url: str) -> Transport:
    """Return the transport over a Redis server; it connects when it is first used."""
    with WING.needed("Live text over Redis"):
        from teamwright.cluster.redis_transport import RedisTransport
    return RedisTransport(url)
