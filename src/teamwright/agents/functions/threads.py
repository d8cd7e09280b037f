"""Runs functions of the user beside the event loop: synchronous ones in a thread or a process, async ones watched.

An exception fails only its own call. A thread can't be stopped: on cancellation it gets a grace period and is then
abandoned. Each step of a coroutine is timed, from one suspension to the next: so an async function that blocks the loop
is named and no other, no thread is needed, and one that does not block pays about a microsecond.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from types import CoroutineType, coroutine
from typing import TypeVar, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from teamwright.agents.functions.imports import portable
from teamwright.errors import AgentError
from teamwright.values.text.display import error_text, seconds_text

try:
    from sniffio import current_async_library_cvar
except ImportError:  # anyio then detects the loop from the thread itself
    current_async_library_cvar = None

S = TypeVar("S")
T = TypeVar("T")

ASYNC_LIBRARY: ContextVar[str | None] | None = current_async_library_cvar
"""Marks the context as running in an event loop; a worker thread must not inherit it."""

THREAD_GRACE = 1.0
"""Seconds that synchronous work gets to end after its call was cancelled."""
IDLE_SECONDS = 1.0
"""Seconds that a thread waits for further work before it ends."""
IDLE = "teamwright idle"
"""The name of a thread that waits for work."""

POLL_SECONDS = 0.01
DRIVER_POLL_SECONDS = 0.2
"""Seconds between two checks of a worker process that its driver is alive."""


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling a function returns a coroutine; an object with an async `__call__` is a function too."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


Inbox = SimpleQueue[tuple[str, Callable[[], None]]]
"""What one thread is to do next, and under which name."""


class WorkerThreads:
    """The threads of one event loop: one that has done its work waits a moment for more, since starting one is dear.

    They are daemons, so that one that never ends does not keep the process alive.
    """

    def __init__(self) -> None:
        self._idle: list[Inbox] = []

    def start(self, work: Callable[[], None], name: str) -> None:
        """Do the work in a thread, under this name."""
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = Inbox()
            threading.Thread(target=self._serve, args=(inbox,), daemon=True).start()
        inbox.put((name, work))

    def _serve(self, inbox: Inbox) -> None:
        thread = threading.current_thread()
        while True:
            try:
                thread.name, work = inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # work is on its way
                    continue
                return
            work()
            del work  # nothing of it stays alive while the thread waits
            thread.name = IDLE
            self._idle.append(inbox)


THREADS: RunVar[WorkerThreads] = RunVar("teamwright_threads")


async def run_in_thread(
    work: Callable[[], T], name: str, abandoned: Callable[[float], Awaitable[None]] | None = None
) -> T:
    """Run the work in a thread; call `abandoned` if it outlives its grace period after a cancellation."""
    has_ended = False
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def resolve(answer: T | None, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((answer, error))

    def run() -> None:
        nonlocal has_ended
        answer: T | None = None
        failure: BaseException | None = None
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - raised again in the awaiting task
            failure = error
        has_ended = True
        with suppress(RuntimeError):  # the loop may have been closed
            loop.call_soon_threadsafe(resolve, answer, failure)

    context = copy_context()
    if ASYNC_LIBRARY is not None:
        context.run(ASYNC_LIBRARY.set, None)
    threads = THREADS.get(None)
    if threads is None:
        THREADS.set(threads := WorkerThreads())
    async with anyio.to_thread.current_default_thread_limiter():
        threads.start(partial(context.run, run), name)
        try:
            answer, error = await outcome
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):  # against anyio's cancellation; `_poll_until` handles asyncio's
                await _poll_until(lambda: has_ended)
                if abandoned is not None and not has_ended:
                    await abandoned(THREAD_GRACE)
            raise
    if error is None:
        return cast("T", answer)
    if isinstance(error, Exception | asyncio.CancelledError):
        raise error
    raise AgentError(error_text(error)) from error


async def run_in_process(work: Callable[[S], T], argument: S) -> T:
    """Run the work in a worker process, which is killed on cancellation."""
    from anyio import to_process

    try:
        return await to_process.run_sync(_run_in_worker, portable(work), argument, os.getpid(), cancellable=True)
    except anyio.BrokenWorkerProcess as error:
        raise AgentError(str(error) or "its process ended before it had answered") from error


def _run_in_worker(work: Callable[[S], T], argument: S, driver: int) -> T:
    """Run the work inside the worker process; an exit becomes a failure, since the process is reused for other calls.

    If the driver's process dies, no one can use the result, so the worker exits too.

    A terminal sends Ctrl-C to every process; the driver handles it and kills this one. A handler that does nothing,
    unlike an ignored signal, is not inherited by programs that the work starts.
    """
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    done = threading.Event()
    threading.Thread(target=_exit_with_driver, args=(driver, done), daemon=True).start()
    try:
        return work(argument)
    except Exception:
        raise
    except BaseException as error:
        raise AgentError(error_text(error)) from error
    finally:
        done.set()


def _exit_with_driver(parent: int, done: threading.Event) -> None:
    """Exit this process when its parent has died."""
    while not done.wait(DRIVER_POLL_SECONDS):
        if os.getppid() != parent:
            os._exit(1)


async def run_to_completion(work: Callable[[], T]) -> T:
    """Run short work in a thread; on cancellation, wait for the work to end before raising."""
    return await finish(anyio.to_thread.run_sync(work))


async def finish(work: Awaitable[T]) -> T:
    """Do work to its end, even if the caller is cancelled meanwhile; raises the cancellation then.

    A shield of anyio holds off the scopes around it. An engine cancels the task of a turn itself, again and again.
    """
    task, cancelled = asyncio.ensure_future(work), None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # the cancellation is raised instead
    raise cancelled


async def _poll_until(has_ended: Callable[[], bool]) -> None:
    """Wait for a thread by polling: a second thread that waits for it might not get a slot.

    Further cancellations are suppressed; the caller raises the first one afterwards.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + THREAD_GRACE
    while not has_ended() and loop.time() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(POLL_SECONDS)


MOST_SECONDS = 1.0
"""How long a function may hold the event loop before its run says so."""


@coroutine
def await_steps(awaited: Awaitable[T], blocked: Callable[[float], None]) -> Generator[object, None, T]:
    """Await an awaitable; call `blocked` with the seconds of each step that held the event loop for too long.

    Only coroutines have steps of their own: what a future or another object waits for is done elsewhere.
    """
    if not isinstance(awaited, CoroutineType):
        return (yield from awaited.__await__())
    steps = cast("Coroutine[object, None, T]", awaited)
    thrown: BaseException | None = None
    began = monotonic()
    try:
        while True:
            suspended = steps.send(None) if thrown is None else steps.throw(thrown)
            if (held := monotonic() - began) > MOST_SECONDS:
                blocked(held)
            thrown = None
            try:
                yield suspended
            except GeneratorExit:
                began = monotonic()
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 - a cancellation, which the function gets
                thrown = error
            began = monotonic()
    except StopIteration as ended:
        return ended.value
    finally:
        if (held := monotonic() - began) > MOST_SECONDS:
            blocked(held)


def blocked_text(kind: str, name: str, seconds: float) -> str:
    """Return the warning about a function that held the event loop."""
    return (
        f"the {kind} {name!r} blocked the event loop for {seconds_text(seconds)}, and with it every other member: write"
        " it without async, so that it runs in a thread, or await its work in  asyncio.to_thread(…)"
    )
