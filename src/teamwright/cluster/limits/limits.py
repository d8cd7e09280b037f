"""The limits that the engines of all processes keep together through a journal in Postgres."""

from __future__ import annotations

from teamwright.cluster.limits.paces import ClusterPaces
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.journal.postgres.paces import PostgresPaces
from teamwright.runtime.admission.shared_limits import PaceShare, SharingLimiter

EMBEDDED = "local"
"""The provider of the embedded model."""


class ClusterLimits:
    """What an engine on a journal in Postgres gets as `shared`, with the address of that journal.

    It connects when a model is first called.
    """

    def __init__(self, journal: DatabaseAddress | str) -> None:
        address = DatabaseAddress.parse(journal) if isinstance(journal, str) else journal
        self._paces = ClusterPaces(PostgresPaces(address))

    async def open(self) -> None:
        """Connect to nothing yet: an engine that calls no model needs no connection."""
        self._paces.open()

    async def connect(self) -> None:
        """Connect already, before a model is called; raises `JournalError`."""
        await self._paces.connect()

    @property
    def problem(self) -> str:
        """Why no model with limits can be called now, because its share can't be renewed; empty if it can."""
        return self._paces.problem

    async def keep(self) -> None:
        """Renew the shares of this process in the paces of models, until cancelled."""
        await self._paces.keep()

    async def close(self) -> None:
        """Give back what this process holds."""
        await self._paces.close()

    def join(self, model: str, limiter: SharingLimiter) -> PaceShare | None:
        """Return the share of this process in the pace of a model; the embedded model is its own."""
        if model.partition(":")[0] == EMBEDDED:
            return None
        return self._paces.join(model, limiter)
