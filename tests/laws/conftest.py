"""Fork servers, shared by all tests of a worker that need child processes."""

from collections.abc import Iterator

import pytest

from tests.kit.postgres import postgres_server
from tests.laws.crash.fork_server import ForkServer

__all__ = ["postgres_server"]


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as made:
        yield made


@pytest.fixture(scope="session")
def second_fork_server() -> Iterator[ForkServer]:
    with ForkServer() as made:
        yield made
