"""Fixtures of the tests with worker processes: a cluster for each test, on one Postgres server."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.kit.postgres import postgres_server, schema_url
from tests.kit.redis import redis_url, shared_redis
from tests.kit.workers import Cluster, opened_cluster, worker_server

__all__ = ["postgres_server", "redis_url", "shared_redis"]


@pytest.fixture(scope="session")
def workers() -> Generator[subprocess.Popen[str]]:
    """A process that forks workers."""
    with worker_server() as server:
        yield server


@pytest.fixture
async def cluster(postgres_server: str, workers: subprocess.Popen[str], tmp_path: Path) -> AsyncGenerator[Cluster]:
    """A cluster without workers."""
    async with opened_cluster(schema_url(postgres_server, tmp_path), tmp_path, workers) as made:
        yield made
