"""Keys that scopes of a run own: taken all at once, held to the end of the scope, and never by two that overlap.

A scope within an owning one may own part of what that one owns, and shares it with the others in there; it may not ask
for more. So whoever waits for keys holds none that somebody else could wait for, and no circle of waiting can close.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from teamwright.errors import NotOwned
from teamwright.planning.lock_table import Claim, LockTable
from teamwright.runtime.ordering.delivery import OrderedDelivery
from teamwright.runtime.ordering.lane import Lane, update_timers
from teamwright.values.events.step import StepHeldUp
from teamwright.values.owned_paths import Owned, keys_text

MOST_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """What may be written within a scope, and the claims of the scopes inside it on that."""

    owned: Owned = field(default_factory=Owned)
    claims: LockTable = field(default_factory=LockTable)


class Owner(NamedTuple):
    """A scope that is to own keys: where it is, and whether it lies in an agent's turn."""

    path: str
    lane: Lane
    around: Holding
    agent_scope: str
    in_agent: bool


class Waiter(NamedTuple):
    """The branch that waits for a claim among others, and how it is told."""

    claims: LockTable
    lane: Lane
    ready: asyncio.Future[None]


@dataclass(frozen=True, slots=True, eq=False)
class PathLock:
    """The keys of one scope while it lasts: where its claim stands, and what those inside may do."""

    path_locks: PathLocks
    owner: Owner
    claim: Claim
    inside: Holding

    @property
    def key(self) -> str:
        """The owning scope."""
        return self.owner.path

    def abandon(self) -> None:
        """Release the keys: the scope has ended, or one around it was abandoned."""
        self.path_locks.release(self)


class PathLocks:
    """Who owns what in one run. Whoever is stopped gives back only when all that is being stopped has ended.

    How long that takes differs between a live run and its replay; who goes next must not.
    """

    def __init__(self, delivery: OrderedDelivery) -> None:
        self.everything = Holding()
        self._delivery = delivery
        self._waiting: dict[Claim, Waiter] = {}
        self._lanes: dict[Claim, Lane] = {}
        self._leaving: list[tuple[LockTable, Claim]] = []
        self._owners: dict[tuple[LockTable, Lane], int] = {}
        self._looking = self._look_again = False
        self._behind = 0
        delivery.when_unwound, delivery.when_still = self._all_left, self._stand_still

    async def acquire(
        self, owner: Owner, keys: tuple[str, ...], priority: int, held_up: Callable[[StepHeldUp], None]
    ) -> PathLock:
        """Wait until nobody else owns one of the keys, and own them; calls `held_up` first where it has to wait."""
        claims = owner.around.claims
        self._check(owner, keys)
        claim = claims.add(owner.path, keys, priority)
        self._lanes[claim] = owner.lane
        self._let_go_on(claims)
        if claim.state == "waiting":
            wanted, ahead = claims.ahead_of(claim)
            held_up(StepHeldUp(keys=tuple(wanted), by=tuple(one.name for one in ahead[:MOST_NAMED])))
            await self._wait(owner, claims, claim)
        if keys:
            self._owners[claims, owner.lane] = self._delivery.opened
        inside = Holding(owner.around.owned.narrowed(keys), LockTable() if keys else claims)
        return PathLock(self, owner, claim, inside)

    def release(self, held: PathLock) -> None:
        """Let others have the keys of a scope."""
        owner = held.owner
        self._owners.pop((owner.around.claims, owner.lane), None)
        self._leave(owner.around.claims, held.claim)

    def _check(self, owner: Owner, keys: tuple[str, ...]) -> None:
        """Refuse what could make two wait for each other."""
        holding, path = owner.around, owner.path
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
        """Whether this branch, or one around it before it was opened, took keys among these claims and has them."""
        inner, outer = None, lane
        while outer is not None:
            since = self._owners.get((claims, outer))
            if since is not None and (inner is None or inner.number > since):
                return True
            inner, outer = outer, outer.around
        return False

    async def _wait(self, owner: Owner, claims: LockTable, claim: Claim) -> None:
        waiter = Waiter(claims, owner.lane, asyncio.get_running_loop().create_future())
        self._waiting[claim] = waiter
        self._stand_still()
        try:
            await self._delivery.hold(owner.lane, waiter.ready, owner.agent_scope)
        except asyncio.CancelledError:
            self._waiting.pop(claim, None)
            self._leave(claims, claim)
            raise
        finally:
            self._put(owner.lane, behind=False)

    def _leave(self, claims: LockTable, claim: Claim) -> None:
        if self._delivery.unwinding:
            self._leaving.append((claims, claim))
            return
        self._end(claims, claim)
        self._let_go_on(claims)

    def _end(self, claims: LockTable, claim: Claim) -> None:
        claims.end(claim)
        del self._lanes[claim]

    def _all_left(self) -> None:
        """Everything that was being stopped has ended: what it held is free, and the first who wait for it go on."""
        left, self._leaving = sorted(self._leaving, key=lambda one: one[1].rank), []
        for claims, claim in left:
            self._end(claims, claim)
        for claims in dict.fromkeys(claims for claims, _ in left):
            self._let_go_on(claims)

    def _let_go_on(self, claims: LockTable) -> None:
        """Wake those that may go now; their branches are at work from this moment."""
        while (claim := claims.next()) is not None:
            waiter = self._waiting.pop(claim, None)
            if waiter is not None:
                self._delivery.unpark(waiter.lane)
                if not waiter.ready.done():
                    waiter.ready.set_result(None)
        claims.held_up.clear()
        self._stand_still()

    def _stand_still(self) -> None:
        """See who waits for keys behind somebody who waits for a person; those may stand before others in turn."""
        self._look_again = True
        if self._looking:
            return
        self._looking = True
        while self._look_again and (self._delivery.people_asked or self._behind):
            self._look_again = False
            for claim, waiter in list(self._waiting.items()):
                _, ahead = waiter.claims.ahead_of(claim)
                self._put(waiter.lane, behind=any(self._lanes[one].still for one in ahead))
        self._looking = False

    def _put(self, lane: Lane, *, behind: bool) -> None:
        if behind != lane.behind:
            lane.behind = behind
            self._behind += 1 if behind else -1
            update_timers(lane)
