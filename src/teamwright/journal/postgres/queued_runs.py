"""The table of the runs that were submitted to queues. The package `cluster` reads and writes its rows."""

from __future__ import annotations

from typing import LiteralString

QUEUE_TABLES: LiteralString = """
    -- `drive` is the workflow that drives the run, or is about to; only `worker` may claim it, if there is a name.
    -- A run without a drive gets one at `due`, or else when there is something to do for it; `reason` says why not now.
    CREATE TABLE queued_runs (
        run text PRIMARY KEY, queue text NOT NULL, priority bigint NOT NULL, drive text,
        worker text NOT NULL DEFAULT '', since float8 NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
        due float8, reason text NOT NULL DEFAULT '', waits boolean NOT NULL DEFAULT false
    );
    CREATE INDEX runs_to_enqueue ON queued_runs (due) WHERE drive IS NULL OR worker <> '';
"""
