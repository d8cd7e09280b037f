"""Ends a process whose event loop is blocked by a member when the run has to stop: nothing inside the loop could.

The record is durable at any instant, so ending the process loses nothing but the call in flight.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from teamwright.runtime.handle import Handle

BEAT = 0.5
"""Seconds between two heartbeats of the event loop, and between two checks of them."""
MARGIN = 2.0
"""Seconds after the grace time until a process that has to stop ends, whatever its members do."""


class LoopWatchdog:
    """Watches the event loop of the block from a thread. It calls `give_up` when the loop is blocked for longer than
    the grace time and the run is past its deadline or has a pending cancel.
    """

    def __init__(self, handle: Handle, grace: float, give_up: Callable[[], None]) -> None:
        self._handle, self._patience, self._give_up = handle, grace + MARGIN, give_up
        self._alive_at = time.monotonic()
        self._over = threading.Event()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._beat()
        threading.Thread(target=self._watch, name="loop watchdog", daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._alive_at = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(BEAT, self._beat)

    def _watch(self) -> None:
        while not self._over.wait(BEAT):
            blocked = time.monotonic() - self._alive_at > self._patience
            if blocked and (self._handle.is_past_deadline(self._patience) or self._has_pending_cancel()):
                self._give_up()

    def _has_pending_cancel(self) -> bool:
        """Whether the run's inbox holds a cancel, which the engine of the blocked loop can't read."""
        from teamwright.cli.interactive.open import with_journal
        from teamwright.errors import JournalError
        from teamwright.values.people.interventions import Cancel

        run_id, seen = self._handle.run_id, self._handle.last_inbox_id
        try:
            items = with_journal(lambda journal: journal.inbox(run_id, seen))
        except JournalError:
            return False
        return any(isinstance(item.intervention, Cancel) for item in items)
