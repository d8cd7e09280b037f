"""A Redis server is named by a URL; without one there is none."""

from __future__ import annotations

import pytest

from teamwright.errors import UsageError
from teamwright.runtime.transport import named_redis, opened_transport


async def test_a_server_of_the_environment_is_used_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named_redis() is None
    monkeypatch.setenv("TEAMWRIGHT_REDIS", "redis://h")
    assert named_redis() == "redis://h"
    async with opened_transport(None, by_default=False) as transport:
        assert transport is None


async def test_a_server_is_refused_where_no_wing_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teamwright.wings.find_wings", tuple)
    with pytest.raises(UsageError, match="Live text over Redis needs an optional part"):
        async with opened_transport("redis://h", by_default=True):
            pass
