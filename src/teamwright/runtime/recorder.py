"""Numbers a run's facts and sees them into the journal; publishes them once they are durable, and not before."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.errors import JournalError
from teamwright.journal.protocol import Batch, Journal
from teamwright.values.events.body import Body, MessageRef
from teamwright.values.events.event import Event, Fact
from teamwright.values.turns.messages import Message, digest

YIELD_EVERY = 0.005
"""Where there is nothing to wait for, how long a run may keep the event loop to itself, by the loop's own clock. The
interpreter lets a thread go on for as long while others wait."""


class Recorder:
    """A run's pen. Facts written in one go of the event loop become one batch.

    A held recorder numbers facts but hands none to the journal until it is let go.
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
        self._publish, self._failed = publish, failed
        self.number = last
        self.last_durable = last
        self._events: list[Event] = []
        self._bodies: dict[Body, str] = {}
        self.texts: dict[str, Body] = {}
        self._latest: tuple[JsonValue, Body] = None, ""
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._shipping = False
        self._yielded = 0.0
        self._error: JournalError | None = None
        self.held = False

    def add(self, scope: str, place: str, fact: Fact) -> Event:
        """Write down a fact; it is durable a little later."""
        self.number += 1
        event = Event(self._run_id, self.number, self._now(), scope, place, fact)
        self._events.append(event)
        if not self._shipping and not self.held:
            self._shipping = True
            asyncio.get_running_loop().call_soon(self._ship_late)
        return event

    def keep(self, value: JsonValue) -> Body:
        """Keep a value as a body and return its hash. A text is hashed once, however often a run refers to it."""
        if isinstance(value, str) and (known := self.texts.get(value)):
            return known
        text = to_json(value).decode()
        body = digest(text)
        self._bodies[body] = text
        if isinstance(value, str):
            self.texts[value] = body
        else:
            self._latest = value, body
        return body

    def keep_again(self, value: JsonValue) -> Body:
        """Like `keep`, for what may be the last value that was kept and that nobody can have changed since."""
        return self._latest[1] if self._latest[0] is value else self.keep(value)

    def knows(self, messages: Sequence[Message]) -> bool:
        """Whether all these texts have been kept before."""
        texts = self.texts
        for message in messages:  # noqa: SIM110 - a generator takes longer than most messages
            if message.content not in texts:
                return False
        return True

    def know(self, text: str, body: Body) -> None:
        """Remember that the journal has this text already."""
        self.texts[text] = body

    def keep_messages(self, messages: Sequence[Message]) -> tuple[MessageRef, ...]:
        """Keep each message's text, and return how to find it again."""
        refs: list[MessageRef] = []
        for message in messages:
            body = self.keep(message.content)
            if message.role == "user":
                refs.append(MessageRef(name=message.name, body=body, role="user"))
            else:
                refs.append(MessageRef(name=message.name, body=body))
        return tuple(refs)

    async def durable(self, *, at_once: bool = False) -> None:
        """Wait until everything written so far is durable; `at_once` as for `waiting`."""
        if (wait := self.waiting(at_once=at_once)) is not None:
            await wait

    def waiting(self, *, at_once: bool = False) -> Awaitable[None] | None:
        """What to wait for until everything written so far is durable: nothing, where it is already.

        `at_once` says that nobody else will add to the batch. Now and then the rest of the program is given way to,
        although there is nothing to wait for.
        """
        if self._error is None and (at_once or self._journal.instant) and not self.held:
            self._ship(alone=at_once)
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
        """Hand over what was held back."""
        self.held = False
        if self._events:
            self._ship()

    def drop(self) -> None:
        """Forget what the journal has not been given yet."""
        self._events, self._bodies, self.texts, self._latest = [], {}, {}, (None, "")

    def _ship_late(self) -> None:
        """Hand over what nobody waited for in this go of the event loop."""
        self._shipping = False
        self._ship()

    def _ship(self, *, alone: bool = False) -> None:
        if not self._events or self.held or self._error is not None:
            return
        batch = Batch(self._events, self._bodies, alone)
        self._events, self._bodies = [], {}
        self._journal.append(batch, lambda error: self._committed(batch, error))

    def _committed(self, batch: Batch, error: BaseException | None) -> None:
        if error is not None:
            self._error = error if isinstance(error, JournalError) else JournalError(str(error))
            self._failed(self._error)
        else:
            self.last_durable = batch.events[-1].number
            self._publish(batch.events)
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
