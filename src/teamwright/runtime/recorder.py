"""Numbers a run's facts, appends them to the journal, and publishes them only once they are durable.

Their times come from a clock that does not jump: it reads the wall clock once and adds monotonic time, and never starts
before the run's last event. So a wall clock that is set back or forward changes no recorded time, limit or wait.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec.json import Encoder
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.errors import JournalError
from teamwright.journal.protocol import Batch, Journal
from teamwright.journal.tenant_budgets import BudgetClaim
from teamwright.values.events.agent import Body, MessageRef
from teamwright.values.events.event import Event, Fact
from teamwright.values.turns.messages import Message, digest


def steady_clock(
    wall: Callable[[], float], monotonic: Callable[[], float] | None = None, not_before: float = 0.0
) -> Callable[[], float]:
    """Return a clock in seconds since the epoch; `monotonic` defaults to the running event loop's time."""
    elapsed = monotonic or _loop_time()
    origin = elapsed()
    start = max(wall(), not_before)
    offset = start - origin
    if offset + origin < start:  # by the rounding of floats
        offset += math.ulp(max(start, origin))

    def now() -> float:
        return offset + elapsed()

    return now


def _loop_time() -> Callable[[], float]:
    """Return the running event loop's clock; for a plain loop the function that it calls itself, which is cheaper."""
    loop = asyncio.get_running_loop()
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time


def remaining_wait(due: float, now: float, whole: float) -> float:
    """Return the seconds left of a recorded wait: never negative, never more than the whole wait."""
    return min(whole, max(0.0, due - now))


_text_to_json = Encoder().encode
"""Writes the same JSON as `to_json` in half the time, and knows only JSON types."""

YIELD_EVERY = 0.005
"""Seconds that a run may keep the event loop busy without yielding, by the loop's clock; as long as the interpreter's
own thread switch interval."""


class Recorder:
    """Appends a run's facts to the journal, batching those recorded in the same event-loop iteration.

    A held recorder numbers facts but submits none to the journal until `release`.
    """

    def __init__(
        self,
        journal: Journal,
        run_id: str,
        last: int,
        now: Callable[[], float],
        publish: Callable[[Sequence[Event]], None],
        failed: Callable[[JournalError], None],
    ) -> None:
        self._journal, self._run_id, self._now = journal, run_id, now
        self.publish, self._failed = publish, failed
        self.number = last
        self.last_durable = last
        self._events: list[Event] = []
        self._bodies: dict[Body, str] = {}
        self.stored_texts: dict[str, Body] = {}
        self._latest: tuple[JsonValue, Body] = None, ""
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_scheduled = False
        self._yielded = 0.0
        self._error: JournalError | None = None
        self.held = False
        self.claim: BudgetClaim | None = None
        """What the run reserves of a tenant's budget, together with its next batch."""

    def add(self, scope: str, place: str, fact: Fact) -> Event:
        """Record a fact and return its event, which becomes durable a little later."""
        self.number += 1
        event = Event(self._run_id, self.number, self._now(), scope, place, fact)
        self._events.append(event)
        if not self._is_scheduled and not self.held:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._submit_scheduled)
        return event

    def store(self, value: JsonValue) -> Body:
        """Store a value as a body and return its hash. A text is hashed once, however often a run refers to it."""
        is_text = isinstance(value, str)
        if is_text and (known := self.stored_texts.get(value)):
            return known
        text = (_text_to_json(value) if type(value) is str else to_json(value)).decode()
        body = digest(text)
        self._bodies[body] = text
        if is_text:
            self.stored_texts[value] = body
        else:
            self._latest = value, body
        return body

    def store_unchanged(self, value: JsonValue) -> Body:
        """Store a value, reusing the hash of the last one stored if it is the same object, unchanged since."""
        return self._latest[1] if self._latest[0] is value else self.store(value)

    def has_stored(self, messages: Sequence[Message]) -> bool:
        """Whether the texts of all these messages are stored already."""
        texts = self.stored_texts
        for message in messages:  # noqa: SIM110 - a generator takes longer than most messages
            if message.content not in texts:
                return False
        return True

    def mark_stored(self, text: str, body: Body) -> None:
        """Remember that the journal holds this text already."""
        self.stored_texts[text] = body

    def store_messages(self, messages: Sequence[Message]) -> tuple[MessageRef, ...]:
        refs: list[MessageRef] = []
        texts = self.stored_texts
        for message in messages:
            body = texts.get(message.content) or self.store(message.content)
            if message.role == "user":
                refs.append(MessageRef(name=message.name, body=body, role="user", attachments=message.attachments))
            else:
                refs.append(MessageRef(name=message.name, body=body, attachments=message.attachments))
        return tuple(refs)

    async def flush(self, *, at_once: bool = False) -> None:
        """Wait until everything recorded so far is durable; `at_once` as in `pending_commit`."""
        if (wait := self.pending_commit(at_once=at_once)) is not None:
            await wait

    def pending_commit(self, *, at_once: bool = False) -> Awaitable[None] | None:
        """Return what to await until everything recorded so far is durable, or `None` if it is.

        `at_once` submits now, because nothing else will join the batch. Now and then it returns a bare yield to the
        event loop, so that other tasks get their turn.
        """
        if self._error is None and (at_once or self._journal.instant) and not self.held:
            self._submit(alone=at_once)
        if self._error is not None:
            raise self._error
        loop = asyncio.get_running_loop()
        if self.last_durable < self.number:
            future = loop.create_future()
            self._waiting.append((self.number, future))
            return future
        if (now := loop.time()) - self._yielded > YIELD_EVERY:
            self._yielded = now
            return asyncio.sleep(0)
        return None

    def release(self) -> None:
        """Submit what was held back."""
        self.held = False
        if self._events:
            self._submit()

    def take_held(self) -> Batch:
        """Return what was held back as one batch, for a caller that commits it by itself."""
        batch = Batch(self._events, self._bodies, claim=self.claim)
        self._events, self._bodies, self.claim = [], {}, None
        return batch

    def discard(self) -> None:
        """Discard what has not been submitted to the journal."""
        self._events, self._bodies, self.stored_texts, self._latest = [], {}, {}, (None, "")

    def _submit_scheduled(self) -> None:
        """Submit what was recorded in this event-loop iteration and not flushed."""
        self._is_scheduled = False
        self._submit()

    def _submit(self, *, alone: bool = False) -> None:
        if not self._events or self.held or self._error is not None:
            return
        batch = Batch(self._events, self._bodies, alone, claim=self.claim)
        self._events, self._bodies, self.claim = [], {}, None
        self._journal.append(batch, partial(self._committed, batch))

    def _committed(self, batch: Batch, error: BaseException | None) -> None:
        if error is not None:
            self._error = error if isinstance(error, JournalError) else JournalError(str(error))
            self._failed(self._error)
        else:
            self.last_durable = batch.events[-1].number
            self.publish(batch.events)
        while self._waiting and (self._error is not None or self._waiting[0][0] <= self.last_durable):
            _, future = self._waiting.popleft()
            if future.done():
                continue
            if self._error is not None:
                future.set_exception(self._error)
                with suppress(JournalError):
                    future.exception()
            else:
                future.set_result(None)
