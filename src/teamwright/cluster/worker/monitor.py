"""Serves the metrics, health and readiness of a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from teamwright.cluster.worker.endpoint import Page, serving
from teamwright.cluster.worker.log import WorkerLog
from teamwright.cluster.worker.metrics import CONTENT_TYPE, WorkerMetrics
from teamwright.cluster.worker.worker import Worker
from teamwright.errors import JournalError

STATUS_SECONDS = 3.0
"""How long the database may take to answer before it counts as away."""


@asynccontextmanager
async def monitoring(worker: Worker, log: WorkerLog, place: str) -> AsyncGenerator[str]:
    """Serve within the block; yields the address.

    A worker is healthy as long as it answers. It is ready while it claims runs: it is not while the database is away,
    or while it is being stopped.
    """
    metrics = WorkerMetrics(log)

    async def show_metrics() -> Page:
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                status = await worker.status()
        except (JournalError, TimeoutError):
            status = None
        text = metrics.render(status, worker.traffic, driving=len(worker.driven), at_once=worker.at_once)
        return Page(text, content_type=CONTENT_TYPE)

    async def show_health() -> Page:
        return Page("ok\n")

    async def show_readiness() -> Page:
        return Page("ready\n") if worker.is_ready else Page("not ready\n", 503)

    pages = {"/metrics": show_metrics, "/healthz": show_health, "/readyz": show_readiness}
    with worker.bus.observing(metrics.count):
        async with serving(place, pages) as address:
            yield address
