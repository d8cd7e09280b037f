"""Fixtures of the tests with worker processes: a cluster for each test, on one Postgres server."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from teamwright.cluster.queue_client import QueueClient
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.journal.postgres.journal import PostgresJournal
from tests.kit.postgres import GIVEN, own_database, postgres_server, schema_url
from tests.kit.redis import redis_url, shared_redis
from tests.kit.workers import Cluster, opened_cluster, worker_server

__all__ = ["postgres_server", "redis_url", "shared_redis"]

SCHEMA = Path("queue")
"""What the schema in a database of a test's own is named after."""


@pytest.fixture(scope="session")
def workers() -> Generator[subprocess.Popen[str]]:
    """A process that forks workers."""
    with worker_server() as server:
        yield server


@pytest.fixture(scope="session")
def empty_queue(postgres_server: str) -> Generator[str]:
    """The name of a database with the tables of a journal and its queue, which take longer to make than to copy."""
    with own_database(postgres_server) as url:
        asyncio.run(_make_tables(schema_url(url, SCHEMA)))
        yield urlsplit(url).path.removeprefix("/")


async def _make_tables(url: str) -> None:
    for part in (PostgresJournal(url), QueueClient(DatabaseAddress.parse(url))):
        await part.open()
        await part.close()


@pytest.fixture
def queue_url(request: pytest.FixtureRequest, postgres_server: str, tmp_path: Path) -> Generator[str]:
    """The address of a journal and its queue, which no other test uses.

    On a server that was given, it is a schema without tables, since the user may not be allowed to create databases.
    """
    if GIVEN:
        yield schema_url(postgres_server, tmp_path)
        return
    with own_database(postgres_server, request.getfixturevalue("empty_queue")) as url:
        yield schema_url(url, SCHEMA)


@pytest.fixture
async def cluster(queue_url: str, workers: subprocess.Popen[str], tmp_path: Path) -> AsyncGenerator[Cluster]:
    """A cluster without workers."""
    async with opened_cluster(queue_url, tmp_path, workers) as made:
        yield made
