from datetime import UTC, datetime

import pytest

from teamwright.cluster.submit_command import delay_until
from teamwright.errors import UsageError

NOW = datetime(2026, 5, 31, 7, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1.5h", 5400), ("2026-05-31T07:10Z", 600), ("2026-05-31 10:00+02:00", 3600)],
)
def test_a_start_is_a_duration_or_a_time(text: str, seconds: float) -> None:
    assert delay_until(text, NOW) == seconds


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime.fromtimestamp(NOW + 60)  # noqa: DTZ006 - as a user writes it
    assert delay_until(local.isoformat(), NOW) == 60


@pytest.mark.parametrize(
    ("text", "said"),
    [("soon", "a duration such as"), ("2026-05-31T06:59Z", "has passed"), ("99999999w", "a hundred years")],
)
def test_what_is_no_later_start_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        delay_until(text, NOW)
