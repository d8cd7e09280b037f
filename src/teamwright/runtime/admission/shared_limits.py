"""The seam through which several engines keep limits together. Without it, an engine keeps its limits alone."""

from __future__ import annotations

from typing import Protocol

from teamwright.budget.rate_limits import Departure
from teamwright.values.limits import Pace


class Window(Protocol):
    """Decides when the next call to a model may be dispatched, and counts those that were."""

    @property
    def is_limited(self) -> bool:
        """Whether the window has any limit."""
        ...

    def set_limits(self, pace: Pace) -> None:
        """Apply these limits from now on."""
        ...

    def estimate(self, prompt_bytes: int, cap: int | None) -> int:
        """Estimate a call's tokens."""
        ...

    def opens_at(self, now: float, tokens: int) -> float:
        """Return when to check again whether a call may be dispatched: `now` if it may already."""
        ...

    def record_departure(self, now: float, tokens: int) -> Departure:
        """Count a call that is dispatched now."""
        ...

    def settle(self, departure: Departure, tokens: int) -> None:
        """Replace a call's estimate by the tokens it really used."""
        ...

    def learn_output(self, output: int) -> None:
        """Update the average output length with that of a new reply."""
        ...

    def remove(self, departure: Departure) -> None:
        """Stop counting a call that was never sent."""
        ...


class PaceShare(Window, Protocol):
    """The part of a model's pace that this process may use now. It never awaits."""

    def calls_changed(self) -> None:
        """Calls have begun to wait, or have ended."""
        ...

    def throttled(self, seconds: float) -> None:
        """The provider asked to slow down, and to send nothing for so long."""
        ...

    def answered(self) -> None:
        """A call has succeeded."""
        ...


class SharingLimiter(Protocol):
    """What a share needs of the rate limiter that it belongs to."""

    name: str
    in_flight: int

    @property
    def waiting(self) -> list[int]:
        """The estimated tokens of each waiting call; the call that is served next comes first."""
        ...

    def allow(self, slots: int | None) -> None:
        """Have at most so many calls in flight; `None` sets no bound."""
        ...

    def cool_down(self, seconds: float) -> None:
        """Make no call for so long."""
        ...

    def serve(self) -> None:
        """Grant slots to waiting calls."""
        ...


class SharedLimits(Protocol):
    """Limits that the engines of several processes keep together. An engine opens, keeps and closes them."""

    async def open(self) -> None: ...

    async def keep(self) -> None:
        """Keep the shares of this process up to date, until cancelled."""
        ...

    async def close(self) -> None:
        """Give back what this process holds."""
        ...

    def join(self, model: str, limiter: SharingLimiter) -> PaceShare | None:
        """Return the share of this process in the pace of a model; `None` if no other process calls the same."""
        ...
