from __future__ import annotations

from pathlib import Path

from teamwright.journal import MemoryJournal
from teamwright.server.security import request_limits as rate_limit
from teamwright.server.security.request_limits import RateLimit
from tests.kit.server import serving


def test_calls_are_allowed_at_once_and_then_at_their_rate() -> None:
    now = 0.0
    limit = RateLimit(2.0, 3, lambda: now)
    assert [limit.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert limit.wait("b") == 0
    now = 0.5
    assert (limit.wait("a"), limit.wait("a")) == (0, 0.5)


def test_addresses_are_forgotten_before_they_fill_the_memory() -> None:
    limit = RateLimit(1.0, 1)
    for number in range(rate_limit.MOST_ADDRESSES + 100):
        limit.wait(str(number))
    assert len(limit._buckets) == rate_limit.MOST_ADDRESSES  # pyright: ignore[reportPrivateUsage]


async def test_guessing_tokens_is_stopped(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        stranger = server.client(None, Authorization="Bearer tw_guess")
        codes = [(await stranger.get("/api/runs")).status_code for _ in range(70)]
        assert codes[:60] == [401] * 60
        assert codes[-1] == 429
        limited = await stranger.get("/api/runs")
        assert (limited.json()["error"]["code"], limited.headers["Retry-After"]) == ("rate_limited", "1")
        assert (await server.client("read").get("/api/runs")).status_code == 200  # who has a token is not locked out
