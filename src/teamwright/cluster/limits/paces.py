"""One rate limiter per model for all processes that share a journal in Postgres: each process leases a share.

A process that calls no model sends nothing. While one does, a single statement renews its shares of all models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast
from uuid import uuid4

from teamwright.cluster.limits.pace_share import ModelShare, lease_clock, model_digest
from teamwright.errors import JournalError
from teamwright.runtime.admission.shared_limits import PaceShare, SharingLimiter
from teamwright.values.models import JsonValue

RENEW_SECONDS = 1.0
"""The interval of renewals while nothing else makes one due."""
SHORTEST_PAUSE, CONTENDED_PAUSE = 0.02, 0.2
"""The pause after a renewal: at least, and while calls wait although it was just renewed."""
RETRY_SECONDS = 0.5


class PaceStore(Protocol):
    """Where the shares of all processes are kept."""

    async def connect(self) -> None:
        """Connect, unless it is connected; raises `JournalError`."""
        ...

    async def renew(self, holder: str, number: int, asked: JsonValue) -> JsonValue:
        """Renew the shares of a process, and return what it is given; raises `JournalError`."""
        ...

    async def close(self) -> None: ...


class ClusterPaces:
    """The shares of this process in the paces of models."""

    def __init__(self, store: PaceStore, clock: Callable[[], float] = lease_clock) -> None:
        self._store, self._clock = store, clock
        self._holder = uuid4().hex
        self._number = 0
        self._shares: dict[str, ModelShare] = {}
        self._due = asyncio.Event()
        self.problem = ""
        """Why the last renewal failed, while there is none that succeeded since: nothing is admitted meanwhile."""

    def open(self) -> None:
        """Begin to work in the running event loop."""
        self._due = asyncio.Event()

    async def connect(self) -> None:
        """Connect already, before a model is called; raises `JournalError`."""
        await self._store.connect()

    def _wake(self) -> None:
        self._due.set()

    def join(self, model: str, limiter: SharingLimiter) -> PaceShare:
        """Return the share of this process in the pace of a model."""
        digest = model_digest(model)
        share = self._shares[digest] = ModelShare(digest, limiter, self._wake, self._clock)
        self._wake()
        return share

    async def keep(self) -> None:
        """Renew the shares as often as needed, until cancelled."""
        while True:
            if not self._due.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(RENEW_SECONDS if self._shares else None):
                        await self._due.wait()
            self._due.clear()
            try:
                await self.renew()
                self.problem = ""
            except JournalError as error:  # shares run out here, and nothing is admitted until the server is back
                self.problem = str(error)
                await asyncio.sleep(RETRY_SECONDS)
            waiting = any(share.is_waiting for share in self._shares.values())
            await asyncio.sleep(CONTENDED_PAUSE if waiting else SHORTEST_PAUSE)

    async def renew(self) -> None:
        """Renew all shares once; raises `JournalError`."""
        shares = [share for share in self._shares.values() if share.needs_renewal]
        if not shares:
            return
        self._number += 1
        number, sent = self._number, self._clock()
        asked = {share.model: cast("dict[str, JsonValue]", share.request()) for share in shares}
        try:
            given = await self._store.renew(self._holder, number, list(asked.values()))
        except BaseException:
            for share in shares:
                share.failed(number, asked[share.model])
            raise
        for one in cast("list[dict[str, JsonValue]]", given):
            model = cast("str", one["model"])
            self._shares[model].renewed(number, sent, one, asked[model]["used"])

    async def close(self) -> None:
        """Give back what this process holds; without the server, it comes back when its lease has expired."""
        for share in self._shares.values():
            share.leave()
        try:
            with suppress(JournalError):
                await self.renew()
        finally:
            await self._store.close()
