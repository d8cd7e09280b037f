"""The wing of many machines: queues, workers, shared limits, and live text over Redis."""

from teamwright.wings import Wing

WING = Wing(
    name="cluster",
    libraries=("croniter", "dbos", "psycopg", "psycopg_pool", "redis", "sqlalchemy"),
    commands={
        "submit": "teamwright.cluster.commands.submit:submit",
        "worker": "teamwright.cluster.commands.worker:worker",
        "cluster": "teamwright.cluster.commands.app:app",
    },
    hooks={
        "shared_engine": "teamwright.cluster.placement:engine_parts",
        "resubmit_run": "teamwright.cluster.commands.resubmit:resubmit_run",
        "leave_queue": "teamwright.cluster.commands.resubmit:leave_queue",
        "routes": "teamwright.cluster.routes:router",
    },
)
