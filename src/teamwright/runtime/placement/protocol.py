"""The contract of a placement, which lets workers drive child runs. An engine is given one."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import NamedTuple, Protocol

from teamwright.history.record.run_record import RunRecord
from teamwright.journal.protocol import Batch, Journal
from teamwright.runtime.bus import Bus
from teamwright.teams.team import Team
from teamwright.values.specs.manifest import Source


class CancelRun(Protocol):
    """Cancels a run, in whichever process it is driven."""

    def __call__(self, run_id: str, reason: str = "", *, wait: bool = True) -> Awaitable[object]:
        """Cancel it; without `wait`, return as soon as its driver is asked to."""
        ...


class PackedTeam(NamedTuple):
    """The source of a team as it is built on another machine, and the files that travel with it."""

    source: Source
    files: Mapping[str, bytes]


class Placement(Protocol):
    """Submits child runs, waits for their ends, and cancels them."""

    @property
    def queue(self) -> str:
        """The queue of the child runs."""
        ...

    async def open(self, journal: Journal, bus: Bus, cancel: CancelRun) -> None:
        """Begin to use the journal of an engine, and its way to cancel a run, with or without a driver."""
        ...

    async def close(self) -> None:
        """Send the cancellations that are due, and end."""
        ...

    async def pack(self, source: Source, team: Team) -> PackedTeam:
        """Return the source of a parent's team as workers need it."""
        ...

    async def finished(self, batch: Batch, *, parent: str, depth: int) -> RunRecord:
        """Submit a child run by its first batch, unless it exists, and return its record once it has ended."""
        ...

    def cancel(self, run_ids: Sequence[str]) -> None:
        """Cancel child runs that have not ended, soon."""
        ...
