"""When a submitted run starts: after a duration such as 10m, or at a time."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from teamwright.cli.terminal.duration import seconds_of
from teamwright.errors import UsageError

FARTHEST: Final = 100 * 366 * 86400.0
"""The seconds to the latest start that is taken."""


def delay_until(text: str, now: float) -> float:
    """Return the seconds until a start: of a duration such as 10m, or until an ISO time, local unless it has a zone."""
    delay = _delay_until(text, now)
    if delay > FARTHEST:
        raise UsageError(f"{text!r} is more than a hundred years away; write an earlier time to start after.")
    return delay


def _delay_until(text: str, now: float) -> float:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return seconds_of(text)
        except UsageError:
            raise UsageError(
                f"{text!r} is no time to start after; write a duration such as 90s, 10m, 2h or 1d, or a time such as"
                " 2026-05-31T07:00 or 2026-05-31T07:00+02:00."
            ) from None
    delay = at.astimezone().timestamp() - now
    if delay < 0:
        raise UsageError(f"{text!r} has passed; without --after the run starts at once.")
    return delay
