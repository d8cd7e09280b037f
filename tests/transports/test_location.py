"""A Redis server is named by a URL; without one there is none."""

from __future__ import annotations

import pytest

from teamwright.transports.location import named_redis, open_redis
from teamwright.transports.redis import RedisTransport


def test_the_server_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named_redis() is None
    monkeypatch.setenv("TEAMWRIGHT_REDIS", "redis://h")
    assert named_redis() == "redis://h"
    assert isinstance(open_redis("redis://h"), RedisTransport)
