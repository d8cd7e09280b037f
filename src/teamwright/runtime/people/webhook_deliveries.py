"""Delivers notices to webhooks in the background: retries with backoff, and a record of each attempt.

A delivery starts when the run's pause is durable and its lock released, so it never delays a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import anyio
from anyio.abc import TaskGroup

from teamwright.agents.functions.threads import run_in_thread
from teamwright.errors import JournalError, RunIsLive
from teamwright.journal.protocol import Batch, Journal, commit, driver_lock
from teamwright.runtime.people.webhook import Response, Webhook, post
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunCheckpoint, RunNotified
from teamwright.values.text.display import LONGEST_ERROR, cut, error_text
from teamwright.values.text.secret_patterns import mask_text

LOG = logging.getLogger("teamwright")
BACKOFF = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before each further attempt."""
DELIVERY_GRACE = 5.0
"""Seconds that a closing engine gives to deliveries in flight."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notice to deliver: the pause that it reports, its webhook, and its body."""

    paused: Event
    webhook: Webhook
    body: bytes
    redact: Callable[[str], str]

    @property
    def run_id(self) -> str:
        return self.paused.run_id

    @property
    def message_id(self) -> str:
        """The same id for all attempts, so that a receiver can detect duplicates."""
        return f"msg_{blake2b(f'{self.run_id}/{self.paused.number}'.encode(), digest_size=16).hexdigest()}"


class Deliveries:
    """All deliveries in flight of one engine. Hold `recording` to take over a run that one of them may write to."""

    def __init__(self, journal: Journal, wall: Callable[[], float]) -> None:
        self._journal = journal
        self._wall = wall
        self.recording = anyio.Lock()
        self.backoff: Sequence[float] = BACKOFF
        self._scopes: set[anyio.CancelScope] = set()
        self._under_way = 0
        self._settled = anyio.Event()
        self._closing = anyio.Event()
        self._ends_at = float("inf")

    def open(self) -> None:
        """Accept deliveries, also after `close`."""
        self._closing, self._ends_at = anyio.Event(), float("inf")

    def start(self, tasks: TaskGroup, delivery: Delivery) -> None:
        self._under_way += 1
        tasks.start_soon(self._deliver, delivery)

    async def wait_settled(self) -> None:
        """Wait until no delivery is in flight."""
        while self._under_way:
            self._settled = anyio.Event()
            await self._settled.wait()

    async def close(self) -> None:
        """Give deliveries in flight a grace time, then cancel them."""
        self._ends_at = anyio.current_time() + DELIVERY_GRACE
        self._closing.set()
        with anyio.move_on_after(DELIVERY_GRACE):
            await self.wait_settled()
        for scope in list(self._scopes):
            scope.cancel()
        with anyio.move_on_after(DELIVERY_GRACE):
            await self.wait_settled()

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self._attempts(delivery)
        except JournalError as error:
            LOG.warning("a webhook's delivery for run %s can't be recorded: %s", delivery.run_id, error)
        finally:
            self._under_way -= 1
            self._settled.set()

    async def _attempts(self, delivery: Delivery) -> None:
        for attempt, backoff in enumerate((*self.backoff, None), start=1):
            if attempt > 1 and await self._last_event(delivery) is None:
                return
            response = await self._attempt(delivery)
            wait = max(backoff, response.retry_after) if response.retryable and backoff is not None else None
            if wait is not None and anyio.current_time() + wait > self._ends_at:
                wait = None
            error = None if response.error is None else cut(delivery.redact(response.error), LONGEST_ERROR)
            self._log(delivery, error, wait)
            still_waits = await self._record(delivery, RunNotified(error=error, attempt=attempt, retry_in=wait))
            if wait is None or not still_waits:
                return
            if not await self._sleep_unless_closing(wait):
                error = f"gave up after {attempt} of {len(self.backoff) + 1} attempts, because the process ended"
                self._log(delivery, error, None)
                await self._record(delivery, RunNotified(error=error, attempt=attempt))
                return

    async def _attempt(self, delivery: Delivery) -> Response:
        def send() -> Response:
            return post(delivery.webhook, delivery.message_id, int(self._wall()), delivery.body)

        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await run_in_thread(send, "teamwright webhook")
            except Exception as error:  # noqa: BLE001 - an error here fails the delivery and never the run
                return Response(f"the attempt failed: {error_text(error)}")
            finally:
                self._scopes.discard(scope)
        return Response("the process ended before it had answered")

    async def _sleep_unless_closing(self, seconds: float) -> bool:
        """Wait before the next attempt; returns false if the engine is closed first."""
        until = anyio.current_time() + seconds
        with anyio.move_on_after(seconds):
            await self._closing.wait()
        remaining = until - anyio.current_time()
        if remaining > 0 and until > self._ends_at:
            return False
        await anyio.sleep(max(0.0, remaining))
        return True

    def _log(self, delivery: Delivery, error: str | None, wait: float | None) -> None:
        if error is None:
            return
        masked = mask_text(error)
        if wait is None:
            LOG.warning("no webhook could be notified that run %s waits for a person: %s", delivery.run_id, masked)
        else:
            LOG.info("a webhook for run %s failed and is called again in %g s: %s", delivery.run_id, wait, masked)

    async def _record(self, delivery: Delivery, fact: RunNotified) -> bool:
        """Record an attempt in the run's record; returns false if the run no longer waits."""
        async with self.recording:
            try:
                async with driver_lock(self._journal, delivery.run_id):
                    last = await self._last_event(delivery)
                    if last is None:
                        return False
                    now = max(self._wall(), last.time)
                    event = Event(delivery.run_id, last.number + 1, now, "", "", fact)
                    await commit(self._journal, Batch([event], {}))
            except RunIsLive:
                return False
        return True

    async def _last_event(self, delivery: Delivery) -> Event | None:
        """Return the last event of a run that still waits, or `None` if it was resumed or has ended."""
        later = await self._journal.read(delivery.run_id, delivery.paused.number)
        if not all(isinstance(event.fact, RunNotified | RunCheckpoint) for event in later):
            return None
        return later[-1] if later else delivery.paused
