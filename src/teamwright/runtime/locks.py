"""What a run holds exclusively: keys of paths, and the actions of tools with `once`.

Path locks are acquired all at once and held until the scope ends. A scope inside an owning one may own part of its
keys and may not ask for more, so no deadlock can form. A call claims its action in the inbox of the root run, which
orders the claims of all forks and processes; its outcome is what its own run has recorded: a crash must lose nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import anyio

from teamwright.agents.effect import Returned
from teamwright.errors import NotDone, NotOwned
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.history.run_record import RunRecord
from teamwright.journal.protocol import InboxItem, Journal
from teamwright.runtime.ordered_delivery import Lane, OrderedDelivery, update_timers
from teamwright.strategies.plan.key_locks import Claim, LockTable
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.team import StepHeldUp
from teamwright.values.owned_paths import Owned, keys_text
from teamwright.values.people import ActionClaim
from teamwright.values.run_keys import is_call, is_inside

POLL_SECONDS = 0.2
"""Seconds between two looks at a call that another process makes."""

Unmade = Literal["not_done", "in_doubt", "asking"]
"""A call without a result: it did nothing, its outcome is unknown, or it waits for a person."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The claim that holds: its id, and the call that made it."""

    id: int
    run_id: str
    key: str


class ActionLedger:
    """The actions of one run, as its driver sees them."""

    def __init__(self, journal: Journal, run_id: str, record: RunRecord) -> None:
        self._journal, self._run_id, self._record = journal, run_id, record
        self._ended: dict[str, Returned | Unmade] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._holders: dict[str, Holder] = {}
        self._last_item = 0

    def lock(self, action: str) -> asyncio.Lock:
        """The lock under which calls of this driver claim an action and make it."""
        return self._locks.setdefault(action, asyncio.Lock())

    @property
    def _root(self) -> str:
        """The run whose inbox has the claims: the same for a run and all its forks."""
        origin = self._record.started.origin if self._record.started is not None else None
        return origin.root_run if origin is not None and origin.how == "fork" else self._run_id

    async def are_forgotten(self) -> bool:
        """Whether the root run was deleted, and with it the claims: then any action may have been made.

        True once the claims are gone, because a run and its inbox are deleted together. So ask after a claim.
        """
        return self._root != self._run_id and await self._journal.find(self._root) is None

    async def claim(self, action: str, key: str, replaced: Holder | None = None) -> Holder:
        """Claim an action for a call of this run, unless it is held; returns the holder.

        A claim in place of another one takes effect if no other call was faster.
        """
        held = await self._holder(action)
        if held is not None and (replaced is None or held.id != replaced.id):
            return held
        after = replaced.id if replaced is not None else 0
        claim = ActionClaim(action=action, run_id=self._run_id, key=key, after=after)
        await self._journal.send(self._root, claim)
        held = await self._holder(action)
        assert held is not None
        return held

    def is_own(self, holder: Holder, key: str) -> bool:
        """Whether a call of this run holds the claim."""
        return (holder.run_id, holder.key) == (self._run_id, key)

    def end(self, key: str, outcome: Returned | BaseException) -> None:
        if isinstance(outcome, Returned):
            self._ended[key] = "asking" if outcome.form == "question" else outcome
        else:
            self._ended[key] = "not_done" if isinstance(outcome, NotDone) else "in_doubt"

    async def outcome(self, holder: Holder) -> Returned | Unmade:
        """Return how a call ended; waits while another run makes it."""
        if holder.run_id == self._run_id and holder.key in self._ended:
            return self._ended[holder.key]
        while True:
            driven = holder.run_id != self._run_id and await self._journal.is_driven(holder.run_id)
            events = await self._journal.read(holder.run_id)
            found = _outcome(events, holder.key)
            if isinstance(found, AgentReturned):
                bodies = RecordedBodies(await self._journal.bodies(found.bodies))
                return Returned(bodies.result(found), artifacts=found.artifacts)
            if found is not None or not driven:
                return found or "in_doubt"
            await anyio.sleep(POLL_SECONDS)

    async def _holder(self, action: str) -> Holder | None:
        """Return the last of the claims on an action that each replaced the one before it."""
        for item in await self._journal.inbox(self._root, self._last_item):
            if item.id > self._last_item:  # else another call has applied it meanwhile
                self._last_item = item.id
                self._apply(item)
        return self._holders.get(action)

    def _apply(self, item: InboxItem) -> None:
        claim = item.intervention
        if isinstance(claim, ActionClaim):
            held = self._holders.get(claim.action)
            if claim.after == (held.id if held else 0):
                self._holders[claim.action] = Holder(item.id, claim.run_id, claim.key)


def _outcome(events: Sequence[Event], key: str) -> AgentReturned | Unmade | None:
    """Return the recorded outcome of a call; `None` while it is being made.

    A call that asked a person is executed again: its outcome is that of the last execution.
    """
    found: AgentReturned | Unmade | None = None
    for event in events:
        match event.fact:
            case AgentCalled() if is_call(event.key, key):
                found = None
            case AgentReturned(form="question") if is_call(event.key, key):
                found = "asking"
            case AgentReturned() as fact if is_call(event.key, key):
                found = fact
            case AgentCallFailed(retry_in=None, error=error) if is_call(event.key, key):
                found = "not_done" if error == NotDone.kind else "in_doubt"
            case AgentReplied() | AgentFailed() if found is None and is_inside(key, event.key):
                found = "in_doubt"
            case _:
                pass
    return found


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
