"""Providers say in many ways when they take calls again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from teamwright.agents.model import error_kinds as reset_times
from teamwright.agents.model.error_kinds import reset_after

HOUR, NOW = 3600.0, 1_800_000_000.0


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_times.time, "time", lambda: NOW)


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": at(HOUR)}, HOUR),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW + HOUR))}, HOUR),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h30m0.5s"}, 1.5 * HOUR + 0.5),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int((NOW + HOUR) * 1000))}, HOUR),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "90"}, 90.0),
    ],
)
def test_headers_name_the_time(headers: dict[str, str], seconds: float) -> None:
    assert reset_after(headers, None) == pytest.approx(seconds)


def test_the_longest_of_the_limits_that_are_used_up_counts() -> None:
    used_up = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "10s"}
    longer = {"x-ratelimit-remaining-images": "0", "x-ratelimit-reset-images": "20s"}
    has_room = {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "1h"}
    assert reset_after(used_up | longer | has_room, None) == 20.0


def test_google_says_it_in_the_body() -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    body: dict[str, object] = {
        "error": {"code": 429, "details": [{"@type": "type.googleapis.com/google.rpc.Help"}, detail]}
    }
    assert reset_after(None, body) == reset_after(None, [body]) == 34.5


@pytest.mark.parametrize("value", ["", "soon", "5 parsecs", "nan", "1h and more", "2026-13-01"])
def test_what_cannot_be_read_is_not_said(value: str) -> None:
    assert reset_after({"x-ratelimit-reset": value}, {"error": value}) is None
