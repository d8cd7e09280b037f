"""Path locks: keys that scopes own exclusively, acquired all at once and held until the scope ends.

A scope inside an owning one may own part of its keys and shares them with its siblings, but may not ask for more. So a
scope that waits for keys holds none that another could wait for, and no deadlock can form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from teamwright.errors import NotOwned
from teamwright.runtime.driver.delivery import Lane, OrderedDelivery, update_timers
from teamwright.strategies.plan.scheduler import Claim, LockTable
from teamwright.values.events.team import StepHeldUp
from teamwright.values.owned_paths import Owned, keys_text

MAX_NAMED_HOLDERS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """What may be written within a scope, and the claims of its inner scopes on it."""

    owned: Owned = field(default_factory=Owned)
    claims: LockTable = field(default_factory=LockTable)


class Owner(NamedTuple):
    """A scope that acquires keys: where it is, and whether it is inside an agent's turn."""

    path: str
    lane: Lane
    holding: Holding
    agent_scope: str
    in_agent: bool


class LockWaiter(NamedTuple):
    """The branch that waits for a claim to be granted, and the future that wakes it."""

    claims: LockTable
    lane: Lane
    ready: asyncio.Future[None]


@dataclass(frozen=True, slots=True, eq=False)
class PathLock:
    """The keys of one scope while it lasts: its claim, and what scopes inside it may own."""

    path_locks: PathLocks
    owner: Owner
    claim: Claim
    inside: Holding

    @property
    def key(self) -> str:
        return self.owner.path

    def abandon(self) -> None:
        """Release the keys, because the scope has ended or one around it was abandoned."""
        self.path_locks.release(self)


class PathLocks:
    """Which scopes of one run own which keys. A stopped scope releases its keys only when all stopped work has ended.

    How long that takes differs between a live run and its replay; which scope is next must not.
    """

    def __init__(self, delivery: OrderedDelivery) -> None:
        self.root = Holding()
        self._delivery = delivery
        self._waiting: dict[Claim, LockWaiter] = {}
        self._lanes: dict[Claim, Lane] = {}
        self._deferred: list[tuple[LockTable, Claim]] = []
        self._owners: dict[tuple[LockTable, Lane], int] = {}
        self._is_updating = self._update_again = False
        self._behind_count = 0
        delivery.when_unwound, delivery.when_blocked = self._release_deferred, self._update_blocked

    async def acquire(
        self, owner: Owner, keys: tuple[str, ...], priority: int, on_wait: Callable[[StepHeldUp], None]
    ) -> PathLock:
        """Wait until no other scope owns any of the keys, then own them; calls `on_wait` first if it has to wait."""
        claims = owner.holding.claims
        self._check(owner, keys)
        claim = claims.add(owner.path, keys, priority)
        self._lanes[claim] = owner.lane
        self._grant_free(claims)
        if claim.state == "waiting":
            contested, ahead = claims.ahead_of(claim)
            on_wait(StepHeldUp(keys=tuple(contested), by=tuple(one.name for one in ahead[:MAX_NAMED_HOLDERS])))
            await self._wait(owner, claims, claim)
        if keys:
            self._owners[claims, owner.lane] = self._delivery.lanes_opened
        inside = Holding(owner.holding.owned.narrowed(keys), LockTable() if keys else claims)
        return PathLock(self, owner, claim, inside)

    def release(self, lock: PathLock) -> None:
        owner = lock.owner
        self._owners.pop((owner.holding.claims, owner.lane), None)
        self._release_claim(owner.holding.claims, lock.claim)

    def _check(self, owner: Owner, keys: tuple[str, ...]) -> None:
        """Reject a claim that could deadlock."""
        holding, path = owner.holding, owner.path
        if not keys:
            return
        if owner.in_agent:
            raise NotOwned(f"The agent at {path!r} can't own {keys_text(keys)} itself; its step does, with  owns")
        if beyond := holding.owned.find_unowned(keys):
            raise NotOwned(
                f"{path!r} would own {keys_text(beyond)}, and what is around it owns only"
                f" {keys_text(holding.owned.keys or ())}: let the outer step own it too"
            )
        if not owner.agent_scope and self._is_inside_an_owner(holding.claims, owner.lane):
            raise NotOwned(
                f"{path!r} would own {keys_text(keys)} while the work around it owns something, of which its"
                " context knows nothing: open it from the context of that owning scope"
            )

    def _is_inside_an_owner(self, claims: LockTable, lane: Lane) -> bool:
        """Whether this branch, or a parent before it opened this one, has acquired keys among these claims."""
        inner, outer = None, lane
        while outer is not None:
            since = self._owners.get((claims, outer))
            if since is not None and (inner is None or inner.number > since):
                return True
            inner, outer = outer, outer.parent
        return False

    async def _wait(self, owner: Owner, claims: LockTable, claim: Claim) -> None:
        waiter = LockWaiter(claims, owner.lane, asyncio.get_running_loop().create_future())
        self._waiting[claim] = waiter
        self._update_blocked()
        try:
            await self._delivery.wait_for(owner.lane, waiter.ready, owner.agent_scope)
        except asyncio.CancelledError:
            self._waiting.pop(claim, None)
            self._release_claim(claims, claim)
            raise
        finally:
            self._set_behind(owner.lane, behind=False)

    def _release_claim(self, claims: LockTable, claim: Claim) -> None:
        if self._delivery.is_unwinding:
            self._deferred.append((claims, claim))
            return
        self._end(claims, claim)
        self._grant_free(claims)

    def _end(self, claims: LockTable, claim: Claim) -> None:
        claims.release(claim)
        del self._lanes[claim]

    def _release_deferred(self) -> None:
        """Release the keys of everything that has been stopped, in order of rank."""
        released, self._deferred = sorted(self._deferred, key=lambda one: one[1].rank), []
        for claims, claim in released:
            self._end(claims, claim)
        for claims in dict.fromkeys(claims for claims, _ in released):
            self._grant_free(claims)

    def _grant_free(self, claims: LockTable) -> None:
        """Grant the claims that are free now and unpark their branches in the same step."""
        while (claim := claims.grant_next()) is not None:
            waiter = self._waiting.pop(claim, None)
            if waiter is not None:
                self._delivery.unpark(waiter.lane)
                if not waiter.ready.done():
                    waiter.ready.set_result(None)
        claims.held_up.clear()
        self._update_blocked()

    def _update_blocked(self) -> None:
        """Find the branches that wait for keys behind one that waits for a person; they may block others in turn."""
        self._update_again = True
        if self._is_updating:
            return
        self._is_updating = True
        while self._update_again and (self._delivery.outside_waits or self._behind_count):
            self._update_again = False
            for claim, waiter in list(self._waiting.items()):
                _, ahead = waiter.claims.ahead_of(claim)
                self._set_behind(waiter.lane, behind=any(self._lanes[one].is_blocked for one in ahead))
        self._is_updating = False

    def _set_behind(self, lane: Lane, *, behind: bool) -> None:
        if behind != lane.behind_blocked:
            lane.behind_blocked = behind
            self._behind_count += 1 if behind else -1
            update_timers(lane)
