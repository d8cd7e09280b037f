"""The endpoint of a worker for monitoring: metrics in the text format of Prometheus, health and readiness.

It only answers GET and HEAD.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from teamwright.cli.terminal.options import parse_address
from teamwright.cluster.status import ClusterStatus, WorkerLog
from teamwright.cluster.worker import Worker
from teamwright.errors import JournalError, UsageError
from teamwright.history.telemetry.exporter import CONTENT_TYPE, Metric, RunMetrics, as_text
from teamwright.runtime.transport import Traffic

if TYPE_CHECKING:
    from teamwright.history.telemetry.exporter import Exporter

READ_SECONDS = 5.0
LARGEST_HEAD = 16 * 1024
MOST_CONNECTIONS = 32
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
STATUS_SECONDS = 3.0
"""How long the database may take to answer before it counts as away."""


class WorkerMetrics(RunMetrics):
    """Counts what a worker spends; its log has what else happened."""

    def __init__(self, log: WorkerLog) -> None:
        super().__init__()
        self._log = log

    def render(
        self,
        status: ClusterStatus | None,
        traffic: Traffic | None,
        *,
        driving: int,
        at_once: int,
        exporter: Exporter | None = None,
    ) -> str:
        """Return all metrics; without a status, the database can't be reached; without traffic, there is no Redis."""
        counts = self._log.counts
        finished = {detail: number for (what, detail), number in counts.items() if what == "finished"}
        return as_text((
            *self.of_runs(driving, finished),
            Metric("teamwright_runs_at_once", "gauge", "The most runs that it drives at a time.", [({}, at_once)]),
            self._events(),
            *self.of_process(exporter),
            *(_of_transport(traffic) if traffic is not None else ()),
            Metric("teamwright_database_up", "gauge", "Whether the database answers.", [({}, status is not None)]),
            *(_of_cluster(status) if status is not None else ()),
        ))  # fmt: skip

    def _events(self) -> Metric:
        counts = self._log.counts
        happened = [({"event": what}, number) for (what, _), number in counts.items() if what != "finished"]
        return Metric("teamwright_worker_events_total", "counter", "What else happened here, by event.", happened)


def _of_transport(traffic: Traffic) -> Iterator[Metric]:
    counts = asdict(traffic)
    losses = counts.pop("losses")
    signals = [({"outcome": outcome}, number) for outcome, number in counts.items()]
    yield Metric("teamwright_live_signals_total", "counter", "Live signals over Redis, by outcome.", signals)
    yield Metric("teamwright_redis_losses_total", "counter", "How often Redis was lost or not found.", [({}, losses)])


def _of_cluster(status: ClusterStatus) -> Iterator[Metric]:
    states = Counter(one.state for one in status.workers)
    workers = [({"state": state}, states[state]) for state in ("ready", "draining", "lost")]
    yield Metric("teamwright_workers", "gauge", "Workers of the cluster, by state.", workers)
    queued = [({"queue": one.name}, one.queued) for one in status.queues]
    yield Metric("teamwright_queue_queued", "gauge", "Runs that wait in a queue.", queued)
    claimed = [({"queue": one.name}, one.claimed) for one in status.queues]
    yield Metric("teamwright_queue_claimed", "gauge", "Runs of a queue that workers drive.", claimed)
    oldest = [({"queue": one.name}, round(one.oldest or 0.0, 3)) for one in status.queues]
    yield Metric("teamwright_queue_oldest_seconds", "gauge", "The age of the run that waits longest.", oldest)
    parked = "Runs that wait for a person, or for a worker that has what they need."
    yield Metric("teamwright_runs_parked", "gauge", parked, [({}, status.parked)])
    flying = [({"model": one.name}, one.in_flight) for one in status.models]
    yield Metric("teamwright_model_in_flight", "gauge", "Calls of a model in flight, over all processes.", flying)
    waiting = [({"model": one.name}, one.waiting) for one in status.models]
    yield Metric("teamwright_model_waiting", "gauge", "Calls of a model that wait for its limits.", waiting)


class Page(NamedTuple):
    """What one path answers."""

    text: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


@asynccontextmanager
async def serving(place: str, pages: Pages) -> AsyncGenerator[str]:
    """Serve pages within the block; yields the address."""
    host, port = parse_address(place)
    open_connections = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_connections
        open_connections += 1
        try:
            if open_connections <= MOST_CONNECTIONS:
                async with asyncio.timeout(READ_SECONDS):
                    writer.write(await _answer(reader, pages))
                    await writer.drain()
        except (TimeoutError, ConnectionError):
            pass
        finally:
            open_connections -= 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    try:
        server = await asyncio.start_server(connected, host, port, limit=LARGEST_HEAD)
    except OSError as error:
        raise UsageError(f"Metrics can't be served at {place!r}: {error.strerror or error}.") from error
    try:
        found = server.sockets[0].getsockname()
        yield f"http://{f'[{host}]' if ':' in host else host}:{found[1]}"
    finally:
        server.close()


async def _answer(reader: asyncio.StreamReader, pages: Pages) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return _response(Page("This is not a request.\n", 400))
    method, path = (*head.split(b"\r\n", 1)[0].decode("latin-1").split(" "), "", "")[:2]
    if method not in {"GET", "HEAD"}:
        return _response(Page("Use GET.\n", 405))
    make = pages.get(path.partition("?")[0])
    page = await make() if make is not None else Page(f"There are: {' '.join(pages)}\n", 404)
    return _response(page, with_body=method == "GET")


def _response(page: Page, *, with_body: bool = True) -> bytes:
    body = page.text.encode()
    head = (
        f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")


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
        text = metrics.render(
            status, worker.traffic, driving=len(worker.driven), at_once=worker.at_once, exporter=worker.exporter
        )
        return Page(text, content_type=CONTENT_TYPE)

    async def show_health() -> Page:
        return Page("ok\n")

    async def show_readiness() -> Page:
        return Page("ready\n") if worker.is_ready else Page("not ready\n", 503)

    pages = {"/metrics": show_metrics, "/healthz": show_health, "/readyz": show_readiness}
    with worker.bus.observing(metrics.count):
        async with serving(place, pages) as address:
            yield address
