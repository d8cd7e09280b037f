"""One core for a test of the embedded model: on a busy machine, one thread is faster than two that synchronize."""

import os
import random
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def one_core() -> Iterator[None]:
    """Bind this thread, and processes that it starts, to one core."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {random.choice(sorted(before))})
    yield
    os.sched_setaffinity(0, before)
