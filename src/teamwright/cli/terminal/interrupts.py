"""What Ctrl-C does: it ends the process at once, or interrupts a run that is driven, so that it can be resumed.

A KeyboardInterrupt inside an import, a finalizer or a library can surface as another error, or vanish. The record is
durable at any instant, so ending the process loses nothing but the call in flight. The entry point imports this module
before anything else, so it imports nothing heavy. A chat and a worker have rules of their own, in their commands.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import asyncio

    import anyio

    from teamwright.cli.terminal.output import LostOutput
    from teamwright.runtime.handle import Handle


INTERRUPTED = 130
STOPPERS = (signal.SIGINT, signal.SIGTERM)
BEAT = 0.5
"""Seconds between two heartbeats of the event loop, and between two checks of them."""
MARGIN = 2.0
"""Seconds after the grace time until a process that has to stop ends, whatever its members do."""


@contextmanager
def exit_on_interrupt() -> Generator[None]:
    """Let SIGINT end the process within the block, unless the caller ignores or handles it."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def raise_on_interrupt() -> Generator[None]:
    """Let SIGINT raise KeyboardInterrupt within the block, which has child processes or a prompt to end."""
    if signal.getsignal(signal.SIGINT) is not _exit:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _exit)


def _exit(*_: object) -> None:
    os._exit(INTERRUPTED)


def _new_cancel_scope() -> anyio.CancelScope:
    import anyio

    return anyio.CancelScope()


@dataclass(slots=True)
class Stopper:
    """The first Ctrl-C (or SIGTERM) interrupts the run and lets it finish cleanly; the second ends the process.

    If a member blocks the event loop, so that the run can't stop, the process ends after the grace time. The record is
    durable at any instant, so the run can be resumed in each case.
    """

    handle: Handle
    close_view: Callable[[], None]
    grace: float
    stopping: bool = False
    lost: LostOutput | None = None
    """Why the events of the run could not be written."""
    following: anyio.CancelScope = field(default_factory=_new_cancel_scope)
    _watchdog: threading.Timer | None = None

    @contextmanager
    def listening(self) -> Generator[None]:
        """Handle the signals within the block; a signal that the parent process ignores stays ignored."""
        import asyncio

        from teamwright.cli.terminal.output import say

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in STOPPERS}
        handled = [number for number in STOPPERS if before[number] is not signal.SIG_IGN]
        if signal.SIGINT not in handled:
            say(f"SIGINT is ignored in this process; to stop the run: teamwright runs steer {self.handle.run_id} pause")
        stop = partial(self._signalled, asyncio.get_running_loop())
        for number in handled:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number in handled:
                signal.signal(number, before[number])
            if self._watchdog is not None:
                self._watchdog.cancel()

    def stop(self) -> None:
        """Interrupt the run, or stop following it if another process drives it."""
        self.stopping = True
        self.handle.interrupt()
        if not self.handle.drives:
            self.following.cancel()

    def _signalled(self, loop: asyncio.AbstractEventLoop, number: int, frame: object) -> None:
        """Handle a signal in the main thread, even while a member blocks the event loop."""
        if self.stopping:
            self._exit()
        self.stopping = True
        loop.call_soon_threadsafe(self.stop)
        self._watchdog = threading.Timer(self.grace + MARGIN, self.give_up)
        self._watchdog.daemon = True
        self._watchdog.start()

    def give_up(self) -> None:
        """End the process although the run has not stopped; called from a watchdog thread."""
        from teamwright.cli.terminal.output import say

        run_id = self.handle.run_id
        say(f"a member did not stop and was abandoned — resume with: teamwright runs resume {run_id}")
        self._exit()

    def _exit(self) -> None:
        with suppress(Exception):
            self.close_view()
        os._exit(INTERRUPTED)


class LoopWatchdog:
    """Watches the event loop of the block from a thread: nothing inside a loop that a member blocks could stop the run.

    It calls `give_up` when the loop is blocked for longer than the grace time and the run is past its deadline or has a
    pending cancel.
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
        import asyncio

        self._alive_at = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(BEAT, self._beat)

    def _watch(self) -> None:
        while not self._over.wait(BEAT):
            blocked, control = time.monotonic() - self._alive_at > self._patience, self._handle.control
            is_late = control is not None and control.is_past_deadline(self._patience)
            if blocked and (is_late or self._has_pending_cancel()):
                self._give_up()

    def _has_pending_cancel(self) -> bool:
        """Whether the run's inbox holds a cancel, which the engine of the blocked loop can't read."""
        from teamwright.cli.terminal.command_setup import with_journal
        from teamwright.errors import JournalError
        from teamwright.values.people import Cancel

        run_id, control = self._handle.run_id, self._handle.control
        seen = control.last_inbox_id if control is not None else 0
        try:
            items = with_journal(lambda journal: journal.inbox(run_id, seen))
        except JournalError:
            return False
        return any(isinstance(item.intervention, Cancel) for item in items)
