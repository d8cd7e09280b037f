"""Paces the pieces of a streamed response: those that arrive within a moment are joined into one.

Each piece wakes all followers of the run, which costs more than reading it. The usual pace of a model is slower, so
its pieces are rarely delayed.
"""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable

from teamwright.agents.contract.effect import ReplyPart

MOMENT = 0.02
"""Seconds within which pieces are joined; the first piece is passed on at once."""


class PacedDeltas:
    """Passes pieces of a response on to `publish`."""

    __slots__ = ("_held", "_loop", "_next", "_part", "_publish", "_timer")

    def __init__(self, publish: Callable[[str, ReplyPart], None]) -> None:
        self._publish, self._loop = publish, get_running_loop()
        self._held: list[str] = []
        self._part = ReplyPart()
        self._next = 0.0
        self._timer: TimerHandle | None = None

    def add(self, text: str, part: ReplyPart) -> None:
        """Pass a piece of this part on, now or within a moment."""
        if self._held:
            if part is self._part or part == self._part:
                self._held.append(text)
                return
            self.flush()
        now = self._loop.time()
        if now >= self._next:
            self._next = now + MOMENT
            self._publish(text, part)
        else:
            self._held, self._part = [text], part
            self._timer = self._loop.call_at(self._next, self.flush)

    def flush(self) -> None:
        """Pass on what is held."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            held, self._held = self._held, []
            self._next = self._loop.time() + MOMENT
            self._publish("".join(held), self._part)
