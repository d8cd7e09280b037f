"""The limits that the engines of all processes keep together through a journal in Postgres.

There is one rate limiter per model: each process leases a share of its pace, slots for calls in flight, and requests
and tokens to spend. A share is valid for a few seconds after the request that renewed it was sent, measured on this
machine, so it ends here before it ends at the server; one that is not renewed admits nothing. A process that calls no
model sends nothing; while one does, a single statement renews its shares of all models.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol, cast
from uuid import uuid4

from teamwright.errors import JournalError
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.journal.postgres.rate_limits import PostgresPaces
from teamwright.runtime.budget.rate_limiter import MINUTE, Departure, PaceShare, RateWindow, SharingLimiter
from teamwright.values.limits import Pace, PerMinute
from teamwright.values.value import JsonValue

LEASE_SECONDS = 4.0
"""How long a share is valid at the server, as in `renew_share`."""
MARGIN_SECONDS = 0.5
"""How much earlier it ends here: more than two clocks can drift apart in that time."""
RECHECK_SECONDS = 1.0
_LOOPBACK = re.compile(r"(?i) at https?://(?:[^/@]*@)?(?:localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0)(?:[:/]|$)")
RENEW_SECONDS = 1.0
"""The interval of renewals while nothing else makes one due."""
SHORTEST_PAUSE, CONTENDED_PAUSE = 0.02, 0.2
"""The pause after a renewal: at least, and while calls wait although it was just renewed."""
RETRY_SECONDS = 0.5
EMBEDDED = "local"
"""The provider of the embedded model."""


def lease_clock() -> float:
    """Seconds that go on while the machine sleeps."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


def model_digest(model: str, machine: str | None = None) -> str:
    """The name under which processes share the pace of a model, whose key may hold the address of a private server.

    A server at a loopback address is another one on each machine.
    """
    if _LOOPBACK.search(model):
        model = f"{model} on {socket.gethostname() if machine is None else machine}"
    return blake2b(model.encode(), digest_size=16).hexdigest()


@dataclass(slots=True, eq=False)
class Grant:
    """Requests and tokens that the server has granted, and how many of them were used."""

    number: int
    expires: float
    requests: int = 0
    tokens: int = 0
    changed: bool = True
    """Whether the server has yet to learn how much was used."""


@dataclass(slots=True, eq=False)
class GrantedDeparture(Departure):
    """A dispatched call, and the grant that it used."""

    grant: Grant = field(default_factory=lambda: Grant(0, 0.0))


class ModelShare:
    """The share of this process in one model's pace.

    Invariant: between two renewals its slots only shrink, and of a grant no more is used than it holds, before it
    expires. So what the server knows bounds what is used.
    """

    def __init__(
        self, model: str, limiter: SharingLimiter, wake: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self.model, self._limiter, self._wake, self._clock = model, limiter, wake, clock
        self._pace: Pace | None = None
        self._slots: int | None = None
        self._requests_left: int | None = None
        self._tokens_left: int | None = None
        self._valid_until = float("-inf")
        self._grant: Grant | None = None
        self._past: list[Grant] = []
        self._outputs = RateWindow()
        self._departed = self._answers = 0
        self._throttled: float | None = None
        self._contended = False
        self._registered = False

    @property
    def is_limited(self) -> bool:
        """Whether the pace has any bound; all bounds depend on a valid share."""
        return self._pace is not None

    def set_limits(self, pace: Pace) -> None:
        """Declare the pace of the model; without any bound, only cooldowns are shared."""
        bounds = (pace.max_parallel, pace.per_minute.calls, pace.per_minute.tokens)
        before, self._pace = self._pace, pace if any(bounds) else None
        if self._pace == before:
            return
        self._outputs.set_limits(pace)
        self._valid_until = float("-inf")  # the share was for another pace
        self._limiter.allow(0 if pace.max_parallel else None)

    def estimate(self, prompt_bytes: int, cap: int | None) -> int:
        """Estimate a call's tokens as a window of one process does."""
        return self._outputs.estimate(prompt_bytes, cap)

    def learn_output(self, output: int) -> None:
        """Update the average output length with that of a new reply."""
        self._outputs.learn_output(output)

    def opens_at(self, now: float, tokens: int) -> float:
        """Return `now` if the share admits a call; else a later check, although a renewal comes first."""
        time, grant = self._clock(), self._grant
        is_valid = time < self._valid_until and (grant is None or time < grant.expires)
        has_request = self._requests_left is None or self._requests_left > 0
        has_tokens = self._tokens_left is None or self._tokens_left >= tokens
        return now if is_valid and has_request and has_tokens else now + RECHECK_SECONDS

    def record_departure(self, now: float, tokens: int) -> Departure:
        """Take a call's request and tokens from the grant."""
        grant = self._grant or Grant(0, 0.0)
        self._use(grant, 1, tokens)
        self._departed += 1
        return GrantedDeparture(now, tokens, grant=grant)

    def settle(self, departure: Departure, tokens: int) -> None:
        """Replace a call's estimate by the tokens it really used."""
        if isinstance(departure, GrantedDeparture):
            self._use(departure.grant, 0, tokens - departure.tokens)
        departure.tokens = tokens

    def remove(self, departure: Departure) -> None:
        """Give back what a call has taken that was never sent."""
        if isinstance(departure, GrantedDeparture):
            self._use(departure.grant, -1, -departure.tokens)

    def _use(self, grant: Grant, requests: int, tokens: int) -> None:
        """Use more or less of a grant; what is left of the one in use changes with it."""
        grant.requests += requests
        grant.tokens += tokens
        grant.changed = True
        if grant is self._grant:
            self._requests_left = None if self._requests_left is None else self._requests_left - requests
            self._tokens_left = None if self._tokens_left is None else self._tokens_left - tokens

    def calls_changed(self) -> None:
        """Renew soon if calls wait, or if another process waits for what this one no longer uses."""
        if self.is_waiting or (self._contended and self._pace is not None):
            self._wake()

    def throttled(self, seconds: float) -> None:
        """Tell the others at once that the provider asked to slow down."""
        self._throttled = max(self._throttled or 0.0, seconds)
        self._wake()

    def answered(self) -> None:
        self._answers += 1

    def leave(self) -> None:
        """Expect no more calls, so that the next renewal gives everything back."""
        self._departed = 0

    @property
    def is_waiting(self) -> bool:
        return self._pace is not None and bool(self._limiter.waiting)

    @property
    def needs_renewal(self) -> bool:
        """Whether the server has to hear of this share."""
        if self._throttled is not None or self._limiter.in_flight or self._limiter.waiting or self._departed:
            return True
        return self._registered or any(grant.changed for grant in self._past)

    def request(self) -> JsonValue:
        """What to tell the server: the declared pace, what is held, what is wanted, and what was used of grants."""
        waiting, flying, pace = self._limiter.waiting, self._limiter.in_flight, self._pace or Pace()
        need, soon = flying + len(waiting), self._departed
        # Room for a few more calls, so that each new one need not wait for a renewal.
        want = need + (need + 1) // 2 if need else min(soon, 1)
        self._shrink(want)
        average = sum(waiting) // len(waiting) if waiting else self._outputs.estimate(0, None)
        throttled, self._throttled = self._throttled, None
        answers, self._answers, self._departed = self._answers, 0, 0
        return {
            "model": self.model,
            "name": self._limiter.name,
            "concurrency": pace.max_parallel,
            "requests": pace.per_minute.calls,
            "tokens": pace.per_minute.tokens,
            "in_flight": flying,
            "held": max(flying, self._slots or 0),
            "want": want,
            "waiting": len(waiting) + soon,
            "head": waiting[0] if waiting else 0,
            "waiting_tokens": sum(waiting) + soon * average,
            "used": [[grant.number, grant.requests, grant.tokens] for grant in self._reported()],
            "throttled": throttled,
            "answers": answers,
        }

    def _shrink(self, want: int) -> None:
        """Give up what is not wanted, or no longer valid, before the server hears of it."""
        if self._slots is not None:
            self._slots = min(self._slots, want) if self._clock() < self._valid_until else 0
            self._limiter.allow(self._slots)
        if not want:
            self._close_grant()

    def _reported(self) -> list[Grant]:
        """The grants whose use the server has yet to learn; the one in use is reported when it has expired."""
        now = self._clock()
        if self._grant is not None and self._grant.expires <= now:
            self._close_grant()
        self._past = [grant for grant in self._past if grant.expires + MINUTE > now]
        return [grant for grant in self._past if grant.changed]

    def _close_grant(self) -> None:
        if self._grant is not None:
            self._grant.changed = True
            self._past.append(self._grant)
            self._grant = None
        self._requests_left = None if self._requests_left is None else 0
        self._tokens_left = None if self._tokens_left is None else 0

    def renewed(self, number: int, sent: float, given: dict[str, JsonValue], reported: JsonValue) -> None:
        """Apply the server's answer to the request that was sent at that time."""
        self._mark_reported(reported)
        self._valid_until = until = sent + LEASE_SECONDS - MARGIN_SECONDS
        self._slots = _number(given["slots"])
        self._limiter.allow(self._slots)
        self._contended = given["contended"] is True
        requests, tokens = _number(given["requests"]), _number(given["tokens"])
        if (most := _number(given["most_tokens"])) is not None:
            self._outputs.set_limits(Pace(per_minute=PerMinute(tokens=most)))
        if requests or tokens:
            self._close_grant()
            self._grant, self._requests_left, self._tokens_left = Grant(number, until), requests, tokens
        elif self._grant is None or requests is tokens is None:
            self._requests_left, self._tokens_left = requests, tokens
        if (cooldown := given["cooldown"]) and isinstance(cooldown, int | float):
            self._limiter.cool_down(float(cooldown))
        self._registered = bool(self._slots or self._limiter.in_flight or self._limiter.waiting or self._grant)
        self._limiter.serve()

    def failed(self, number: int, request: dict[str, JsonValue]) -> None:
        """Note that no answer arrived: what it may have granted is reported as unused."""
        self._past.append(Grant(number, self._clock() + LEASE_SECONDS))
        if isinstance(throttled := request["throttled"], int | float):
            self._throttled = max(self._throttled or 0.0, float(throttled))

    def _mark_reported(self, reported: JsonValue) -> None:
        sent = reported if isinstance(reported, list) else []
        for grant in self._past:
            if [grant.number, grant.requests, grant.tokens] in sent:
                grant.changed = False


def _number(value: JsonValue) -> int | None:
    return int(value) if isinstance(value, int | float) else None


class PaceStore(Protocol):
    """Where the shares of all processes are kept."""

    async def connect(self) -> None:
        """Connect, unless it is connected; raises `JournalError`."""
        ...

    async def renew(self, holder: str, number: int, asked: JsonValue) -> JsonValue:
        """Renew the shares of a process, and return what it is given; raises `JournalError`."""
        ...

    async def close(self) -> None: ...


class ClusterLimits:
    """The shares of this process in the paces of models: what an engine on a journal in Postgres gets as `shared`.

    It takes the address of that journal, or a store of its own, and connects when a model is first called.
    """

    def __init__(self, journal: DatabaseAddress | str | PaceStore, clock: Callable[[], float] = lease_clock) -> None:
        address = DatabaseAddress.parse(journal) if isinstance(journal, str) else journal
        self._store: PaceStore = PostgresPaces(address) if isinstance(address, DatabaseAddress) else address
        self._clock = clock
        self._holder = uuid4().hex
        self._number = 0
        self._shares: dict[str, ModelShare] = {}
        self._due = asyncio.Event()
        self.problem = ""
        """Why the last renewal failed, while there is none that succeeded since: nothing is admitted meanwhile."""

    async def open(self) -> None:
        """Begin to work in the running event loop; an engine that calls no model needs no connection."""
        self._due = asyncio.Event()

    async def connect(self) -> None:
        """Connect already, before a model is called; raises `JournalError`."""
        await self._store.connect()

    def _wake(self) -> None:
        self._due.set()

    def join(self, model: str, limiter: SharingLimiter) -> PaceShare | None:
        """Return the share of this process in the pace of a model; the embedded model is its own."""
        if model.partition(":")[0] == EMBEDDED:
            return None
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
