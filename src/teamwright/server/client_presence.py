"""Work that goes on only as long as the client waits for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from fastapi import Request

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed its connection before it had its answer."""


async def while_connected(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of some work; it is cancelled, and `ClientGone` raised, when the client leaves.

    The body of the request has to be read before.
    """
    outcome: list[T] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:

        async def leave_with_client() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(leave_with_client)
        try:
            outcome.append(await work())
        except Exception as error:  # noqa: BLE001 - it is raised outside of the group, which would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not outcome:
        raise ClientGone
    return outcome[0]
