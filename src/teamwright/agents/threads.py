"""Synchronous work beside the event loop. A thread can't be stopped: it gets a grace time and is then left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar, cast

import anyio
import anyio.to_thread

T = TypeVar("T")

GRACE = 1.0
"""How long synchronous work may take to end once nobody waits for it any more."""

LOOK_EVERY = 0.01


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

    async with anyio.to_thread.current_default_thread_limiter():
        threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True).start()
        try:
            answer, error = await outcome
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await _until(ended)
                if abandoned is not None and not ended.is_set():
                    await abandoned(GRACE)
            raise
    if error is not None:
        raise error
    return cast("T", answer)


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
    """Wait for a thread by looking: another thread to wait with might find no room either."""
    for _ in range(int(GRACE / LOOK_EVERY)):
        if event.is_set():
            return
        await anyio.sleep(LOOK_EVERY)
