"""Finds the transport of an engine: a given one, or the one that a wing brings for the URL of a Redis server."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from teamwright.wings import required_hook

if TYPE_CHECKING:
    from teamwright.transports.protocol import Transport

REDIS_VARIABLE = "TEAMWRIGHT_REDIS"


def named_redis() -> str | None:
    """The URL of the user's Redis server, if there is one."""
    return os.environ.get(REDIS_VARIABLE) or None


@asynccontextmanager
async def opened_transport(given: Transport | str | None, *, by_default: bool) -> AsyncGenerator[Transport | None]:
    """Yield the transport that is given, or one over the Redis server of this URL, which is closed at the end.

    Where none is given, it is the user's server, if there is one and it is wanted `by_default`.
    """
    if given is None:
        given = named_redis() if by_default else None
    if not isinstance(given, str):
        yield given
        return
    transport: Transport = required_hook("live_transport", "Live text over Redis")(given)
    try:
        yield transport
    finally:
        await transport.close()
