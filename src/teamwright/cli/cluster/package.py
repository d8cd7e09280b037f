"""Loads the cluster for a command, or says in one line which extra is missing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

EXTRA = ("dbos", "psycopg", "psycopg_pool", "redis", "sqlalchemy")


@contextmanager
def needs_cluster() -> Generator[None]:
    """Import names of the cluster within the block; raises `MissingExtra` if what they need is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        from teamwright.errors import MissingExtra

        raise MissingExtra("cluster", "queues and workers") from error
