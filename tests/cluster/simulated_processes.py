"""Several processes that share the paces of models in a real database, with a clock that a test moves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import LiteralString
from uuid import uuid4

from teamwright.cluster.shared_limits import ClusterLimits, ModelShare, model_digest
from teamwright.errors import JournalUnavailable
from teamwright.journal.postgres.connection import Connection, DatabaseAddress, connect
from teamwright.journal.postgres.journal import migrate
from teamwright.journal.postgres.rate_limits import PostgresPaces
from teamwright.runtime.budget.rate_limiter import RateLimiter, Slot
from teamwright.values.limits import Pace
from teamwright.values.value import JsonValue

_OLDER: LiteralString = """
    WITH paces AS (
        UPDATE paces SET seen = seen - %(age)s, cooldown = cooldown - %(age)s, slowed = slowed - %(age)s
        WHERE model = %(model)s
    ), shares AS (
        UPDATE pace_shares SET queued = queued - %(age)s, served = served - %(age)s, expires = expires - %(age)s
        WHERE model = %(model)s
    ) UPDATE pace_grants SET ends = ends - %(age)s WHERE model = %(model)s
"""


@dataclass(eq=False)
class Network:
    """A connection to the database that loses answers, delays requests, or is down."""

    store: PostgresPaces
    down: bool = False
    lose_answer: bool = False
    hold_back: bool = False
    held_back: list[tuple[str, int, JsonValue]] = field(default_factory=list[tuple[str, int, JsonValue]])

    async def connect(self) -> None:
        await self.store.connect()

    async def renew(self, holder: str, number: int, asked: JsonValue) -> JsonValue:
        if self.down:
            raise JournalUnavailable("down")
        if self.hold_back:
            self.hold_back = False
            self.held_back.append((holder, number, asked))
            raise JournalUnavailable("no answer")
        given = await self.store.renew(holder, number, asked)
        if self.lose_answer:
            self.lose_answer = False
            raise JournalUnavailable("the answer was lost")
        return given

    async def deliver_late(self) -> None:
        """Let requests arrive that were given up."""
        for one in self.held_back:
            await self.store.renew(*one)
        self.held_back.clear()

    async def close(self) -> None:
        pass


@dataclass(eq=False)
class Process:
    """One process: its limiter for the model, calls in flight, and calls that wait."""

    cluster: Cluster
    network: Network
    paces: ClusterLimits
    limiter: RateLimiter
    flying: list[Slot] = field(default_factory=list[Slot])
    waiting: list[asyncio.Task[None]] = field(default_factory=list["asyncio.Task[None]"])
    begun: int = 0
    renewed: float = 0.0

    async def call(self, prompt_bytes: int = 0) -> None:
        """Begin a call, or let it wait."""
        self.waiting.append(asyncio.create_task(self._wait(prompt_bytes)))
        await settled()

    async def _wait(self, prompt_bytes: int) -> None:
        tokens = self.limiter.window.estimate(prompt_bytes, 0)
        slot = await self.limiter.acquire(("run",), prompt_bytes, 0)
        self.flying.append(slot)
        self.begun += 1
        self.cluster.departures.append((self.cluster.time, tokens))

    async def renew(self) -> bool:
        """Renew once; returns whether that succeeded."""
        try:
            await self.paces.renew()
        except JournalUnavailable:
            return False
        finally:
            await settled()
        self.renewed = self.cluster.time
        return True

    def possible(self) -> tuple[int, int, int]:
        """The calls that it may have in flight, and the requests and tokens that it may spend, before it renews."""
        share = self.limiter.window
        if share.opens_at(0.0, 0) > 0.0:
            return len(self.flying), 0, 0
        assert isinstance(share, ModelShare)
        return (
            max(len(self.flying), self.limiter.concurrency.current),
            share._requests_left or 0,
            share._tokens_left or 0,
        )

    async def end_call(self) -> None:
        """End the oldest call."""
        if self.flying:
            self.flying.pop(0).close()
            await settled()

    async def die(self) -> None:
        """End the process without telling the others."""
        for task in self.waiting:
            task.cancel()
        await asyncio.gather(*self.waiting, return_exceptions=True)
        self.flying.clear()
        self.cluster.processes.remove(self)


class Cluster:
    """Processes that declare the same pace for one model, which is new to the database."""

    def __init__(self, connection: Connection, store: PostgresPaces, pace: Pace) -> None:
        self._connection, self._store, self.pace = connection, store, pace
        self.model = uuid4().hex
        self._digest = model_digest(self.model)
        self.time = 1000.0
        self.departures: list[tuple[float, int]] = []
        self.processes: list[Process] = []

    @classmethod
    async def open(cls, url: str, pace: Pace) -> Cluster:
        address = DatabaseAddress.parse(url)
        connection = await connect(address)
        await migrate(connection, address)
        return cls(connection, PostgresPaces(address), pace)

    async def close(self) -> None:
        for process in list(self.processes):
            await process.die()
        await self._store.close()
        await self._connection.close()

    def start(self, pace: Pace | None = None) -> Process:
        """Start a process."""
        network = Network(self._store)
        paces = ClusterLimits(network, lambda: self.time)
        limiter = RateLimiter("m")
        share = paces.join(self.model, limiter)
        assert share is not None
        limiter.window = limiter.share = share
        limiter.declare(pace or self.pace)
        self.processes.append(process := Process(self, network, paces, limiter))
        return process

    async def advance(self, seconds: float) -> None:
        """Let time pass, here and at the server, where everything recorded becomes older."""
        self.time += seconds
        await self._connection.execute(_OLDER, {"age": timedelta(seconds=seconds), "model": self._digest})

    @property
    def in_flight(self) -> int:
        return sum(len(process.flying) for process in self.processes)

    def in_a_minute(self) -> tuple[int, int]:
        """The requests and the tokens that have left in the last sixty seconds."""
        recent = [tokens for time, tokens in self.departures if time > self.time - 60]
        return len(recent), sum(recent)

    def possible(self) -> tuple[int, int, int]:
        """The calls in flight, and the requests and tokens of sixty seconds, if processes use all that they have."""
        requests, tokens = self.in_a_minute()
        sums = zip(*(process.possible() for process in self.processes), strict=True)
        flying, more_requests, more_tokens = (sum(one) for one in sums)
        return flying, requests + more_requests, tokens + more_tokens


async def settled() -> None:
    """Let tasks proceed that can."""
    for _ in range(3):
        await asyncio.sleep(0)
