"""The nurseries of children for all tests of a worker that need other processes."""

from collections.abc import Iterator

import pytest

from tests.laws.crash.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.fixture(scope="session")
def second_nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made
