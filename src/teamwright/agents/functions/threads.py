"""Synchronous work beside the event loop, in a thread or a process. Whatever it raises ends its own call and no more.

A thread can't be stopped: it gets a grace time and is then left behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import TypeVar, cast

import anyio
import anyio.to_thread

from teamwright.errors import AgentError
from teamwright.values.text.display import error_text

try:
    from sniffio import current_async_library_cvar
except ImportError:  # anyio then asks the thread itself
    current_async_library_cvar = None

S = TypeVar("S")
T = TypeVar("T")

ASYNC_LIBRARY: ContextVar[str | None] | None = current_async_library_cvar
"""Says, for all who look, that an event loop runs here: which a thread must not inherit."""

THREAD_GRACE = 1.0
"""How long synchronous work may take to end once nobody waits for it any more."""

LOOK_EVERY = 0.01
LOOK_FOR_DRIVER = 0.2
"""Seconds between two looks of a process at whether its driver still lives."""


async def in_thread(work: Callable[[], T], name: str, abandoned: Callable[[float], Awaitable[None]] | None = None) -> T:
    """Do the work in a thread of its own; `abandoned` is told of one that outlives its grace time.

    The thread is a daemon, so that one which never ends does not keep the process alive.
    """
    ended = threading.Event()
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def tell(answer: T | None, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((answer, error))

    def run() -> None:
        answer: T | None = None
        failure: BaseException | None = None
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - raised again where the answer is waited for
            failure = error
        ended.set()
        with suppress(RuntimeError):  # the loop may be gone by now
            loop.call_soon_threadsafe(tell, answer, failure)

    context = copy_context()
    if ASYNC_LIBRARY is not None:
        context.run(ASYNC_LIBRARY.set, None)
    async with anyio.to_thread.current_default_thread_limiter():
        threading.Thread(target=context.run, args=(run,), name=name, daemon=True).start()
        try:
            answer, error = await outcome
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):  # of a library; the engine's own is waited out in `_until`
                await _until(ended)
                if abandoned is not None and not ended.is_set():
                    await abandoned(THREAD_GRACE)
            raise
    if error is None:
        return cast("T", answer)
    if isinstance(error, Exception | asyncio.CancelledError):
        raise error
    raise AgentError(error_text(error)) from error


async def in_process(work: Callable[[S], T], told: S) -> T:
    """Do the work in a process, which is ended when nobody waits for it any more."""
    from anyio import to_process

    try:
        return await to_process.run_sync(_contained, work, told, os.getpid(), cancellable=True)
    except anyio.BrokenWorkerProcess as error:
        raise AgentError(str(error) or "its process ended before it had answered") from error


def _contained(work: Callable[[S], T], told: S, driver: int) -> T:
    """Runs in the process: what would end it comes back as a failure, since others are given the same process.

    When the process that drives the run is gone, nobody can use the result, so this one ends as well.

    A terminal sends Ctrl-C to every process. It is for the one that waits, which ends this one; and this, unlike a
    signal that is ignored, is not inherited by programs that the work starts.
    """
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    done = threading.Event()
    threading.Thread(target=_end_with, args=(driver, done), daemon=True).start()
    try:
        return work(told)
    except Exception:
        raise
    except BaseException as error:
        raise AgentError(error_text(error)) from error
    finally:
        done.set()


def _end_with(parent: int, done: threading.Event) -> None:
    """End this process when its parent is gone, however that ended."""
    while not done.wait(LOOK_FOR_DRIVER):
        if os.getppid() != parent:
            os._exit(1)


async def to_the_end(work: Callable[[], T]) -> T:
    """Do short work in a thread; when it is stopped meanwhile, that takes its course once the work has ended."""
    doing = asyncio.ensure_future(anyio.to_thread.run_sync(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            while not doing.done():
                with suppress(asyncio.CancelledError):  # raised again below
                    await asyncio.wait([doing])
        if not doing.cancelled():
            doing.exception()
        raise


async def _until(event: threading.Event) -> None:
    """Wait for a thread by looking: another thread to wait with might find no room either.

    The wait may be cancelled again; whoever calls this raises the first cancellation afterwards.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + THREAD_GRACE
    while not event.is_set() and loop.time() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(LOOK_EVERY)
