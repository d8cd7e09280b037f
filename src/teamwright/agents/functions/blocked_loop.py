"""Notices an async function of the user that blocks the event loop, in which every member of the run works.

Each step of its coroutine is timed, from one suspension to the next: so the function that blocks is named and no other,
no thread is needed, and a function that does not block pays about a microsecond.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import monotonic
from types import CoroutineType, coroutine
from typing import TypeVar, cast

from teamwright.values.text.display import seconds_text

T = TypeVar("T")

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
