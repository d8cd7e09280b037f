"""The client of a request: the run that it names, and work that ends when it closes its connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import anyio
from fastapi import Request

from teamwright.errors import RunNotFound, UsageError

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.values.turns.results import RunSummary


T = TypeVar("T")


class ClientGone(Exception):
    """The client closed its connection before it had its answer."""


async def require_run(engine: Engine, run_id: str) -> RunSummary:
    """Return the summary of a run; raises `RunNotFound`."""
    try:
        found = await engine.runs.find(run_id)
    except UsageError as error:
        raise RunNotFound(run_id) from error
    if found is None:
        raise RunNotFound(run_id)
    return found


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
