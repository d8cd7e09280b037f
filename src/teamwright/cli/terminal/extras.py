"""Loads an optional part of the package for a command, or says in one line which extra is missing."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("dbos", "psycopg", "psycopg_pool", "redis", "sqlalchemy"),
    "server": ("fastapi", "starlette", "uvicorn", "websockets"),
}
"""The libraries of each extra that has commands of its own."""


@contextmanager
def needs_extra(extra: str, what: str) -> Generator[None]:
    """Import names that need an extra within the block; raises `MissingExtra` if a library of it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES[extra]:
            raise
        from teamwright.errors import MissingExtra

        raise MissingExtra(extra, what) from error
