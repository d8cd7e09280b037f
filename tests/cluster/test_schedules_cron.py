from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from teamwright.cluster.schedules import Cron
from teamwright.errors import UsageError


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def test_the_times_before_and_after_a_time_are_found() -> None:
    cron = Cron("*/15 * * * *")
    assert cron.after(at("2026-05-31T07:15")) == at("2026-05-31T07:30")
    assert cron.latest(at("2026-05-31T07:15")) == at("2026-05-31T07:15")
    assert cron.latest(at("2026-05-31T07:29")) == at("2026-05-31T07:15")


def test_times_are_those_of_the_zone_also_when_its_clocks_change() -> None:
    cron = Cron("0 7 * * *", "Europe/Berlin")
    assert cron.after(at("2026-03-28T12:00")) == at("2026-03-29T05:00"), "summer time began in the night"
    assert cron.after(at("2026-01-10T12:00")) == at("2026-01-11T06:00")


@pytest.mark.parametrize("text", ["", "x", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "@never"])
def test_what_is_no_cron_expression_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cron expression"):
        Cron(text)


@pytest.mark.parametrize("zone", ["Berlin", "", "../etc/passwd", "Europe"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="time zone"):
        Cron("@daily", zone)
