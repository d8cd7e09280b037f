"""The ledger: nested accounts in which every call is reserved before it is sent and settled when it returns; and the
limits on how many asks a part of a run makes, and how deep they nest.

Invariant: at every account, spent + held ≤ limit, whatever runs concurrently. Only a provider that reports more usage
than was reserved can break it, and then the next reservation sees that. What is kept back for the closing asks of a
team is not available to other calls, but is not part of the invariant: it is an estimate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from typing_extensions import override

from teamwright.errors import LimitReached
from teamwright.history.run_record import RunRecord
from teamwright.runtime.budget.reservation_size import Balance, Levels, ReservationRequest, worst_case
from teamwright.values.limits import Amounts, Limits, MessageLimits, refusal_text, tighter
from teamwright.values.run_keys import is_inside, parent_keys
from teamwright.values.usage_and_prices import (
    BUDGET_UNITS,
    CALLS,
    NO_COST,
    ONE_CALL,
    TOKENS,
    USD,
    BudgetUnit,
    Cost,
    add_cost,
    dollars,
    picodollars,
)


class LimitedAsks(Struct):
    """The asks that have begun inside one level with limits, in order: the outermost team, for the limits of a run."""

    level: str
    limits: Limits
    begun: dict[str, int]

    @classmethod
    def of(cls, level: str, limits: Limits, record: RunRecord, own_ask: str) -> LimitedAsks:
        """Count what is recorded; `own_ask` is the key of the run's own ask."""
        inside = level or own_ask
        keys = [key for key in record.asks if is_inside(key, inside) and not record.is_superseded(key)]
        return cls(inside, limits, {key: place for place, key in enumerate(keys)})

    def refusal(self, key: str, depth: int) -> str | None:
        """Count an ask; returns why it is refused, if it is."""
        place = self.begun.setdefault(key, len(self.begun))
        if self.limits.depth is not None and depth > self.limits.depth:
            return f"asks in {self.level!r} may nest {self.limits.depth} deep (limits: depth)"
        if self.limits.asks is not None and place >= self.limits.asks:
            return f"{self.level!r} may make {self.limits.asks} asks, which have begun (limits: asks)"
        return None


class AskLimits:
    """The limits on asks of one run, at all its levels."""

    __slots__ = ("_levels", "by_level")

    def __init__(self) -> None:
        self.by_level: dict[str, Limits] = {}
        """Empty in most runs, which then count nothing."""
        self._levels: dict[str, LimitedAsks] = {}

    def add(self, level: str, limits: Limits) -> None:
        """Limit the asks inside a level; the empty one is the whole run."""
        self.by_level[level] = limits

    def refusal(self, key: str, turns: set[str], record: RunRecord) -> LimitReached | None:
        """Count an ask that begins inside these turns, at each level around it; returns why it is refused, if it is."""
        around = [turn for turn in parent_keys(key) if turn in turns]
        if not around:  # the run's own
            return None
        refusals = [self._count(level, key, around, record) for level in self.by_level if is_inside(key, level)]
        why = next(filter(None, refusals), None)
        return None if why is None else LimitReached(f"It is not asked: {why}.")

    def _count(self, level: str, key: str, around: list[str], record: RunRecord) -> str | None:
        known = self._levels.get(level)
        if known is None:
            known = self._levels[level] = LimitedAsks.of(level, self.by_level[level], record, around[-1])
        return known.refusal(key, 1 + sum(is_inside(turn, known.level) for turn in around))

    def left(self, key: str, turns: set[str], limits: Limits | None) -> Limits | None:
        """Return the limits of a run that a call inside a turn starts, with what is left of the asks around it."""
        around = [turn for turn in parent_keys(key) if turn in turns]
        for level in self._levels.values():
            if not is_inside(key, level.level):
                continue
            own, bound = limits or Limits(), level.limits
            asks = None if bound.asks is None else max(0, bound.asks - len(level.begun))
            depth = (
                None
                if bound.depth is None
                else max(0, bound.depth - sum(is_inside(one, level.level) for one in around))
            )
            limits = own.model_copy(update={"asks": tighter(own.asks, asks), "depth": tighter(own.depth, depth)})
        return limits


class Unavailable(Exception):
    """What a call needs besides is not there at the instant of a grant: it gets nothing, and has to wait for that."""


class Refusal(LimitReached):
    """A reservation that would not fit even with nothing else outstanding."""

    def __init__(self, account: Account, index: int, needed: int) -> None:
        self.level = account.name
        self.what: BudgetUnit = BUDGET_UNITS[index]
        limit = dict(account.bounds)[index]
        self.needed = _display_amount(index, needed)
        self.limit = _display_amount(index, limit)
        self.left = _display_amount(index, max(0, limit - account.spent[index]))
        self.kept = _display_amount(index, account.kept[index])
        self.why = ""
        super().__init__()

    @override
    def __str__(self) -> str:
        return refusal_text(self.level, self.what, self.needed, self.left, self.limit, self.kept, self.why)


class Account(Balance):
    """One level of the ledger. An account without limits only delegates to its parents.

    `message` limits each single model request, with the tightest values of all levels. Calls queue at the outermost
    level that has limits, for all levels inside it, so that no call overtakes another.
    """

    __slots__ = ("message", "name", "outermost", "parent", "priced", "queue", "queued", "strict", "watchers")

    def __init__(self, name: str, limits: Limits | None, parent: Account | None, spent: Cost = NO_COST) -> None:
        super().__init__(tuple(_bounds(limits)) if limits is not None else (), spent)
        self.name, self.parent, self.queued = name, parent, 0
        self.watchers: list[Callable[[], None]] = []
        """Called when a reply was charged here, before others are served."""
        self.queue: deque[_ReservationWaiter] = deque()
        around = parent.outermost if parent is not None else None
        self.outermost: Account = around if around is not None and around.bounds else self
        inner, outer = limits.message if limits else None, parent.message if parent else None
        self.message: MessageLimits | None = inner.tightened(outer) if inner and outer else inner or outer
        self.priced: bool = any(index == USD for index, _ in self.bounds) or (parent is not None and parent.priced)
        self.strict: bool = (limits is not None and limits.strict) or (parent is not None and parent.strict)

    def chain(self) -> Iterator[Account]:
        """Yield this account and its parents, innermost first."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    def for_message(self) -> Account:
        """Return the account for one model request: this one, or a child of it if requests have their own limits."""
        bounds = self.message
        if bounds is None or (bounds.tokens is None and bounds.usd is None):
            return self
        name = f"a message of {self.name or 'the run'}"
        return Account(name, Limits(tokens=bounds.tokens, usd=bounds.usd), self)

    def remaining(self) -> Amounts:
        """Return what is neither spent nor held nor kept back, at the tightest level for each unit."""
        found: list[int | None] = [None, None, None]
        for level in self.chain():
            for index, limit in level.bounds:
                taken, known = level.spent[index] + level.held[index] + level.kept[index], found[index]
                free = max(0, limit - taken)
                found[index] = free if known is None else min(known, free)
        money = found[USD]
        return Amounts(tokens=found[TOKENS], usd=None if money is None else dollars(money), calls=found[CALLS])

    def raise_bounds(self, limits: Limits) -> None:
        """Apply limits that were raised, and serve the calls that fit now."""
        self.bounds = tuple(_bounds(limits))
        self.outermost.serve()

    def charge(self, cost: Cost) -> None:
        for level in self.chain():
            add_cost(level.spent, cost)

    def correct(self, before: Cost, after: Cost) -> None:
        """Replace an earlier charge with a corrected one."""
        add_cost(self.spent, before, -1)
        add_cost(self.spent, after)

    def hold(self, cost: Cost, sign: int, likely: Cost | None = None) -> None:
        """Hold a cost in this account and its parents (`sign=1`), or release it (`sign=-1`)."""
        for level in self.chain():
            add_cost(level.held, cost, sign)
            add_cost(level.likely, cost if likely is None else likely, sign)
            level.holders += sign if cost.tokens or cost.usd or cost.calls > 1 else 0

    def keep_back(self, before: Cost, after: Cost) -> None:
        """Keep an amount back from all calls in this account and its parents, in place of an earlier one."""
        for level in self.chain():
            add_cost(level.kept, before, -1)
            add_cost(level.kept, after)
        if any(now < then for now, then in zip(after, before, strict=True)):
            self.outermost.serve()

    def add_waiting(self, change: int) -> None:
        """Change the number of calls that wait for a reservation; a fair share leaves room for them."""
        for level in self.chain():
            level.waiting += change

    def add_branches(self, change: int, queued: int = 0) -> None:
        """Change the number of concurrent branches, each of which may be about to ask; a fair share counts them.

        Those that are `queued` until others have ended don't share with them, but are work to come.
        """
        for level in self.chain():
            level.branches += change
            level.queued += queued

    @property
    def counts_tokens(self) -> bool:
        """Whether a limit on tokens applies to this account."""
        return any(index == TOKENS for level in self.chain() for index, _ in level.bounds)

    @property
    def limits_tokens(self) -> bool:
        """Whether a limit on tokens or money applies to this account."""
        return any(index != CALLS for level in self.chain() for index, _ in level.bounds)

    def overspends(self, index: int) -> bool:
        """Whether more of a unit is spent than a limit on it allows, here or at a level around."""
        return any(
            bound == index and level.spent[index] > limit for level in self.chain() for bound, limit in level.bounds
        )

    async def reserve(self, request: ReservationRequest, take_other: Callable[[], None] | None = None) -> Reservation:
        """Reserve the worst case of one call. Waits while other calls hold what it needs.

        `take_other` takes whatever else the call needs, at the instant of the grant, or raises `Unavailable`. Raises
        `Refusal` if the call would not fit even if nothing were held. For a model request the worst case is the prompt
        plus the output cap. If the request sets no cap, the cap is a fair share of what remains; there is none where
        neither tokens nor money are limited. A cap that is set but does not fit is
        reduced, as long as a useful output remains.
        """
        if (granted := self.reserve_now(request, take_other)) is not None:
            return granted
        waiter = _ReservationWaiter(self, request, asyncio.get_running_loop().create_future(), take_other)
        self.add_waiting(1)
        self.outermost.queue.append(waiter)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.cancelled():
                self.add_waiting(-1)
                self.outermost.serve()
            elif waiter.granted.done() and waiter.granted.exception() is None:
                waiter.granted.result().cancel()
            raise

    def reserve_now(
        self, request: ReservationRequest, take_other: Callable[[], None] | None = None
    ) -> Reservation | None:
        """Reserve like `reserve`, or return `None` if the call would have to wait, be it only behind others."""
        if any(not waiter.granted.done() for waiter in self.outermost.queue):
            return None
        self.add_waiting(1)
        try:
            return self._grant(request, take_other)
        finally:
            self.add_waiting(-1)

    def obstacle(self, request: ReservationRequest) -> tuple[Account, BudgetUnit, float, float] | None:
        """Return what a call waits for: the level, the unit, what it needs there, and what others hold; else `None`."""
        cost, likely, _, _ = worst_case(Levels(tuple(self.chain()), self.outermost), request)
        exceeds = partial(Account.exceeded_bound, cost=cost, likely=likely, declared=request.ceiling is not None)
        for level in self.chain():
            if (index := exceeds(level, with_held=True)) is not None:
                needed, held = (_display_amount(index, one) for one in (cost[index], level.held[index]))
                return level, BUDGET_UNITS[index], needed, held
        return None

    def serve(self) -> None:
        """Grant or refuse the queued calls in order, up to the first that must keep waiting.

        A settlement costs only as much as the calls it serves, however many wait behind them.
        """
        while self.queue:
            account, request, granted, take_other = self.queue[0]
            if granted.done():  # cancelled; `reserve` has updated the counts
                self.queue.popleft()
                continue
            try:
                reservation = account._grant(request, take_other)
            except (Refusal, Unavailable) as error:
                granted.set_exception(error)
            else:
                if reservation is None:
                    return
                granted.set_result(reservation)
            self.queue.popleft()
            account.add_waiting(-1)

    def _grant(self, request: ReservationRequest, take_other: Callable[[], None] | None) -> Reservation | None:
        cost, likely, cap, cut = worst_case(Levels(tuple(self.chain()), self.outermost), request)
        exceeds = partial(Account.exceeded_bound, cost=cost, likely=likely, declared=request.ceiling is not None)
        for level in self.chain():
            if (index := exceeds(level, with_held=False)) is not None:
                raise Refusal(level, index, cost[index])
        if any(exceeds(level, with_held=True) is not None for level in self.chain()):
            return None
        if take_other is not None:
            take_other()
        self.hold(cost, 1, likely)
        return Reservation(self, cost, cap, cut, likely, starts_run=request.starts_run)


@dataclass(slots=True)
class Reservation:
    """What is held for one call; ended by exactly one of `settle`, `release_tokens`, `forfeit` and `cancel`.

    `cut` says that its output cap is smaller than requested, because no more remains.
    """

    account: Account
    cost: Cost
    max_output: int | None
    cut: bool = False
    likely: Cost | None = None
    starts_run: bool = False

    def settle(self, cost: Cost, output: int = 0) -> Cost:
        """Charge what the call cost, with so many tokens of output; returns by how much it exceeded the reservation."""
        for level in self.account.chain():
            if output:
                level.lengths.add(output)
            if self.starts_run:
                level.run_count += 1
                add_cost(level.run_costs, cost)
        self._end(cost, watched=True)
        return Cost(max(0, cost.tokens - self.cost.tokens), max(0, cost.usd - self.cost.usd), 0)

    def release_tokens(self) -> None:
        """End the reservation of a call that used no tokens; it still counts as a call."""
        self._end(ONE_CALL)

    def forfeit(self) -> None:
        """Charge the reservation in full, because the cost of the call is unknown."""
        self._end(self.cost)

    def cancel(self) -> None:
        """End the reservation of a call that was never sent, as if nothing had been reserved."""
        self._end(NO_COST)

    def _end(self, cost: Cost, *, watched: bool = False) -> None:
        self.account.hold(self.cost, -1, self.likely)
        self.account.charge(cost)
        if watched:
            for level in self.account.chain():
                for watcher in level.watchers:
                    watcher()
        self.account.outermost.serve()


class _ReservationWaiter(NamedTuple):
    account: Account
    request: ReservationRequest
    granted: asyncio.Future[Reservation]
    take_other: Callable[[], None] | None


def _bounds(limits: Limits) -> Iterator[tuple[int, int]]:
    if limits.tokens is not None:
        yield TOKENS, limits.tokens
    if limits.usd is not None:
        yield USD, picodollars(limits.usd)
    if limits.calls is not None:
        yield CALLS, limits.calls


def _display_amount(index: int, amount: int) -> float:
    return dollars(amount) if index == USD else amount
