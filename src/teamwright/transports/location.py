"""Resolves a transport from a URL, or from `TEAMWRIGHT_REDIS`. Nothing is opened here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from teamwright.errors import MissingExtra

if TYPE_CHECKING:
    from teamwright.transports.protocol import Transport

REDIS_VARIABLE = "TEAMWRIGHT_REDIS"


def named_redis() -> str | None:
    """The URL of the user's Redis server, if there is one."""
    return os.environ.get(REDIS_VARIABLE) or None


def open_redis(url: str) -> Transport:
    """Return the transport over a Redis server; it connects when it is first used."""
    try:
        from teamwright.transports.redis import RedisTransport
    except ImportError as error:
        raise MissingExtra("cluster", "live text over Redis") from error
    return RedisTransport(url)
