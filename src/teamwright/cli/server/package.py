"""Loads the server for a command, or says in one line which extra is missing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

EXTRA = ("fastapi", "starlette", "uvicorn", "websockets")


@contextmanager
def needs_server() -> Generator[None]:
    """Import names of the server within the block; raises `MissingExtra` if what it needs is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        from teamwright.errors import MissingExtra

        raise MissingExtra("server", "teamwright serve") from error
