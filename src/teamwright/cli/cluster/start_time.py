"""When a submitted run starts: after a duration such as 10m, or at a time."""

from __future__ import annotations

from datetime import datetime

from teamwright.cli.terminal.duration import seconds_of
from teamwright.errors import UsageError


def delay_until(text: str, now: float) -> float:
    """Return the seconds until a start: of a duration such as 10m, or until an ISO time, local unless it has a zone."""
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
