"""Times of a cron expression, in a time zone. The only place that imports croniter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from teamwright.errors import UsageError

FIELDS = 5
HINT = 'write five fields, "minute hour day month weekday", such as "0 7 * * mon-fri", or @hourly, @daily, @weekly'


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields, or a word such as @daily. Raises `UsageError` for any other text."""

    text: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        from croniter import croniter

        try:
            ZoneInfo(self.zone)
        except (KeyError, OSError, ValueError) as error:
            raise UsageError(f"There is no time zone {self.zone!r}; write it like Europe/Berlin, or UTC.") from error
        words = self.text.split()
        if (len(words) != FIELDS and not self.text.startswith("@")) or not croniter.is_valid(self.text):
            raise UsageError(f"{self.text!r} is no cron expression; {HINT}.")
        try:
            self.after(datetime.now(UTC).timestamp())
        except ValueError as error:
            raise UsageError(
                f"No time matches the cron expression {self.text!r}, such as a 30th of February."
            ) from error

    def after(self, time: float) -> float:
        """Return the first time after this one."""
        return self._step(time, forward=True)

    def latest(self, time: float) -> float:
        """Return the last time that is not after this one."""
        return self._step(time + 1e-3, forward=False)

    def _step(self, time: float, *, forward: bool) -> float:
        from croniter import croniter

        steps = croniter(self.text, datetime.fromtimestamp(time, ZoneInfo(self.zone)))
        return (steps.get_next(datetime) if forward else steps.get_prev(datetime)).timestamp()
