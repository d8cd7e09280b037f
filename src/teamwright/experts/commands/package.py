"""Loads the optional package for a command, or says in one line that it is missing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

PACKAGE = "teamwright.experts"


@contextmanager
def needs_experts() -> Generator[None]:
    """Import names of the optional package within the block; raises `UsageError` if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(PACKAGE):
            raise
        from teamwright.errors import UsageError

        raise UsageError(f"This command needs the optional package  {PACKAGE}, which is not installed.") from error
