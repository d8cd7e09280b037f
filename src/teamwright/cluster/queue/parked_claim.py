"""Claims one parked entry for one worker. DBOS itself only claims from the head of a queue, for whichever worker asks.

The entry is then like any other that DBOS has claimed, so the limits of its queue count it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.cluster.queue.settings import NOW_MS

if TYPE_CHECKING:
    import sqlalchemy as sa


def claim_parked(connection: sa.Connection, schema: str, run_id: str, queue: str, worker_id: str, token: str) -> bool:
    """Claim a parked entry within the limits of its queue; `token` proves to DBOS who drives it.

    Returns False if the limits leave no room, or if another process was first.
    """
    table = f'"{schema}".workflow_status'
    statement = f"""
        UPDATE {table} AS entry SET status = 'PENDING', queue_name = queue.name, executor_id = %(worker)s,
            owner_xid = %(token)s, started_at_epoch_ms = {NOW_MS}, updated_at = {NOW_MS}, completed_at = NULL,
            rate_limited = queue.rate_limit_max IS NOT NULL
        FROM "{schema}".queues AS queue
        WHERE entry.workflow_uuid = %(run)s AND entry.status = 'CANCELLED' AND queue.name = %(queue)s
            AND (queue.concurrency IS NULL OR queue.concurrency > (
                SELECT count(*) FROM {table} WHERE queue_name = queue.name AND status = 'PENDING'))
            AND (queue.rate_limit_max IS NULL OR queue.rate_limit_max > (
                SELECT count(*) FROM {table} WHERE queue_name = queue.name AND rate_limited
                    AND status NOT IN ('ENQUEUED', 'DELAYED')
                    AND started_at_epoch_ms > {NOW_MS} - queue.rate_limit_period_sec * 1000))
    """
    values = {"run": run_id, "queue": queue, "worker": worker_id, "token": token}
    return connection.exec_driver_sql(statement, values).rowcount == 1
