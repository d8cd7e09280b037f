"""When a submitted run starts: after a duration such as 10m, or at a time."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from teamwright.cli.terminal.options import seconds_of
from teamwright.errors import UsageError

FARTHEST: Final = 100 * 366 * 86400.0
"""The seconds to the latest start that is taken."""


def delay_until(text: str, now: float) -> float:
    """Return the seconds from `now`, the time by the database's clock, until a start; raises `UsageError`.

    The text is a duration such as 10m, or an ISO time, local unless it has a zone.
    """
    start = parse_start(text)
    delay = start.timestamp() - now if isinstance(start, datetime) else start
    if delay < 0:
        raise UsageError(f"{text!r} has passed; without --after the run starts at once.")
    if delay > FARTHEST:
        raise UsageError(f"{text!r} is more than a hundred years away; write an earlier time to start after.")
    return delay


def parse_start(text: str) -> datetime | float:
    """Return a time, or the seconds of a duration; raises `UsageError` for anything else."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except ValueError:
        try:
            return seconds_of(text)
        except UsageError:
            raise UsageError(
                f"{text!r} is no time to start after; write a duration such as 90s, 10m, 2h or 1d, or a time such as"
                " 2026-05-31T07:00 or 2026-05-31T07:00+02:00."
            ) from None
