"""The ledger: nested accounts in which every call is reserved before it is sent and settled when it returns.

Invariant: at every account, spent + held ≤ limit, whatever runs concurrently. Only a provider that reports more usage
than was reserved can break it, and then the next reservation sees that. What is kept back for the closing asks of a
team is not available to other calls, but is no part of the invariant: it is an estimate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Literal, NamedTuple

from typing_extensions import override

from teamwright.errors import LimitReached
from teamwright.values.limits import (
    AMPLE_OUTPUT,
    BUDGET_UNITS,
    CALLS,
    MODEST_OUTPUT,
    NO_COST,
    ONE_CALL,
    TOKENS,
    USD,
    USEFUL_OUTPUT,
    Amounts,
    BudgetUnit,
    Cost,
    Limits,
    MessageLimits,
    Rate,
    add_cost,
    dollars,
    picodollars,
    refusal_text,
    scaled_output,
)

OUTPUT_MARGIN = 1.5
"""How much longer than the longest reply so far another reply may be."""
RUN_REQUESTS = 2
"""How many requests like the first, or runs like those before, the share of a run pays for at least."""
LEAST_REPLIES = 3
"""Replies after which the longest of them says how long others will be."""
MANY_REPLIES = 8
"""Replies after which few others are longer than `OUTPUT_MARGIN` times the longest of them."""


def likely_mean(total: float, count: int, guess: float) -> float:
    """Return the mean of so many amounts; while they are few, a guess counts as another one."""
    return total / count if count >= LEAST_REPLIES else (total + guess) / (count + 1)


@dataclass(slots=True)
class OutputLengths:
    """How long the replies of models were so far, in tokens."""

    count: int = 0
    total: int = 0
    longest: int = 0

    def add(self, tokens: int) -> None:
        self.count += 1
        self.total += tokens
        self.longest = max(self.longest, tokens)

    def usual(self, guess: int) -> int:
        """Return how long another reply will probably be: the mean; a guess counts as one while replies are few."""
        return ceil(likely_mean(self.total, self.count, guess))

    def useful(self, limit: float) -> int:
        """Return the smallest output cap that is worth a prompt under a limit on output tokens.

        Once there are replies, it is a little longer than the longest of them.
        """
        known, guessed = ceil(OUTPUT_MARGIN * self.longest), scaled_output(USEFUL_OUTPUT, limit)
        return known if known and self.count >= LEAST_REPLIES else max(known, guessed)

    def whole(self, limit: float) -> int:
        """Return an output cap that cuts hardly any reply: an ample one, until many replies are known."""
        useful = self.useful(limit)
        return max(useful, scaled_output(AMPLE_OUTPUT, limit)) if self.count < MANY_REPLIES else useful

    @property
    def least(self) -> int:
        """The output below which a prompt is wasted: half of a usual reply, once there are some."""
        return ceil(self.total / self.count / 2) if self.count >= LEAST_REPLIES else 1

    def ample(self) -> int:
        """Return the output cap below which a request without its own learns that it gets less than usual."""
        return AMPLE_OUTPUT if self.count < LEAST_REPLIES else min(AMPLE_OUTPUT, ceil(OUTPUT_MARGIN * self.longest))


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


class Account:
    """One level of the ledger. An account without limits only delegates to its parents.

    `message` limits each single model request, with the tightest values of all levels. Calls queue at the outermost
    level that has limits, for all levels inside it, so that no call overtakes another. `likely` is what the calls that
    hold reservations will probably cost, by the replies so far (`lengths`) and the runs that calls have started.
    """

    __slots__ = (
        "bounds", "branches", "held", "holders", "kept", "lengths", "likely", "message", "name", "outermost", "parent",
        "priced", "queue", "queued", "run_costs", "run_count", "spent", "strict", "waiting", "watchers",
    )  # fmt: skip

    def __init__(self, name: str, limits: Limits | None, parent: Account | None, spent: Cost = NO_COST) -> None:
        self.name, self.parent = name, parent
        self.bounds = tuple(_bounds(limits)) if limits is not None else ()
        self.spent, self.held, self.kept, self.likely = list(spent), [0, 0, 0], [0, 0, 0], [0, 0, 0]
        self.holders = self.waiting = self.branches = self.queued = self.run_count = 0
        self.lengths, self.run_costs = OutputLengths(), [0, 0, 0]
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

    def exceeded_bound(self, cost: Cost, likely: Cost, *, with_held: bool) -> int | None:
        """Return the index of the bound that a reservation would exceed here, if any.

        What is kept back need not fit beside the worst case of a call but beside its likely cost: it is needed when the
        call has returned. While others are in flight, what is kept refuses nothing yet: their replies will show how
        much is needed.
        """
        for index, limit in self.bounds:
            held, others = (self.held[index], self.likely[index]) if with_held else (0, 0)
            if self.spent[index] + held + cost[index] > limit:
                return index
            if not self.kept[index] or (self.holders and not with_held):
                continue
            if self.spent[index] + self.kept[index] + others + likely[index] > limit:
                return index
        return None

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
        cost, likely, _, _ = self._worst_case(request)
        for level in self.chain():
            if (index := level.exceeded_bound(cost, likely, with_held=True)) is not None:
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
        cost, likely, cap, cut = self._worst_case(request)
        for level in self.chain():
            if (index := level.exceeded_bound(cost, likely, with_held=False)) is not None:
                raise Refusal(level, index, cost[index])
        if any(level.exceeded_bound(cost, likely, with_held=True) is not None for level in self.chain()):
            return None
        if take_other is not None:
            take_other()
        self.hold(cost, 1, likely)
        return Reservation(self, cost, cap, cut, likely, starts_run=request.starts_run)

    def _worst_case(self, request: ReservationRequest) -> tuple[Cost, Cost, int | None, bool]:
        """Return what a call costs at most and probably, its output cap, and whether that is less than it should be."""
        if not request.model:
            if request.starts_run:
                share = request.held or self._share(request)
                return share, self._likely_run(share), None, False
            return ONE_CALL, ONE_CALL, None, False
        rate, lengths = request.rate or NO_RATE, self._lengths
        if request.cap is None and not self._limits_output(rate):
            most = Cost(request.prompt + MODEST_OUTPUT, rate.cost(request.prompt, MODEST_OUTPUT))
            return most, most, None, False
        cap = self._cap(request, rate, request.prompt)
        cut = cap < (lengths.ample() if request.cap is None else request.cap)
        prompt = request.prompt + (request.note if cut else 0)
        if prompt > request.prompt:
            cap = min(cap, self._cap(request, rate, prompt))
        usual = min(cap, lengths.usual(self._guess(rate))) if lengths.count else cap
        likely = Cost(prompt + usual, rate.cost(prompt, usual))
        return Cost(prompt + cap, rate.cost(prompt, cap)), likely, cap, cut

    def _guess(self, rate: Rate) -> int:
        """Return how long a reply is before any is known: less under a small limit, which expects short ones."""
        return scaled_output(USEFUL_OUTPUT, self._tightest_limit(rate))

    def _tightest_limit(self, rate: Rate) -> float:
        """Return the output tokens that the tightest limit allows, be it in tokens or in money."""
        prices = (1, rate.output, 0)
        bounds = [(limit, prices[index]) for level in self.chain() for index, limit in level.bounds]
        return min((limit / price for limit, price in bounds if price), default=inf)

    @property
    def _lengths(self) -> OutputLengths:
        """The lengths of replies at the outermost level that has limits: it has seen most of them."""
        return self.outermost.lengths

    def _share(self, request: ReservationRequest) -> Cost:
        """Return a share of what remains, of each unit that has a bound, for a call that starts a run.

        As with output caps, it is shared between calls that hold something, calls that wait, and branches. It is a
        share of the whole: what is kept back is needed when the run has ended, and most of a share is returned. No
        share is too small for a first request and another one, nor for a run like those before: then fewer run at once.
        Where others hold what a larger share lacks, a half of it will do, so that the run need not wait for them.
        """
        rate, guess = request.rate or NO_RATE, self._guess(request.rate or NO_RATE)
        least = [0, 0, 1]
        if request.prompt:
            least = [RUN_REQUESTS * (request.prompt + guess), RUN_REQUESTS * rate.cost(request.prompt, guess), 1]
        if count := self.outermost.run_count:
            usual = [RUN_REQUESTS * cost // count for cost in self.outermost.run_costs]
            least = list(map(max, least, usual))
        share: list[int | None] = [None, None, None]
        for level in self.chain():
            sharing = max(1, level.holders + level.waiting, level.branches)
            for index, limit in level.bounds:
                left = max(1, limit - level.spent[index])
                room = max(left // sharing, min(left, least[index]))
                room = max(min(room, left - level.held[index]), -(-room // 2), min(left, least[index]))
                known = share[index]
                share[index] = room if known is None else min(known, room)
        tokens, usd, calls = share
        return Cost(tokens or 0, usd or 0, calls or 0)

    def _likely_run(self, share: Cost) -> Cost:
        """Return what a run will probably cost: as much as those before it, else its share without what is kept."""
        outer = self.outermost
        if outer.run_count:
            return Cost(
                *(min(one, -(-cost // outer.run_count)) for one, cost in zip(share, outer.run_costs, strict=True))
            )
        likely = list(share)
        for level in self.chain():
            sharing = max(1, level.holders + level.waiting, level.branches)
            for index, limit in level.bounds:
                likely[index] = min(likely[index], max(0, limit - level.spent[index] - level.kept[index]) // sharing)
        return Cost(*likely)

    def _limits_output(self, rate: Rate) -> bool:
        """Whether a limit on tokens, or on money where the price is known, applies to this account."""
        limited = {index for level in self.chain() for index, _ in level.bounds}
        return TOKENS in limited or (USD in limited and rate.output > 0)

    def _cap(self, request: ReservationRequest, rate: Rate, prompt: int) -> int:
        """Return the output cap of a request: its own as far as it fits, else an equal share of what remains.

        What remains is shared between calls that hold tokens, calls that wait, and branches that may be about to ask,
        so that no request takes what the others need, and a late one waits for them instead of getting the little that
        they leave. No share is smaller than a whole reply while that remains: then fewer requests are granted at once,
        and the others wait for what those leave, or are refused. Of a large share only half is taken at once: a call
        whose end is never known is charged in full, and the next one needs something too.
        """
        lengths = self._lengths
        most, least = (inf, lengths.least) if request.cap is None else (request.cap, min(request.cap, USEFUL_OUTPUT))
        if request.least == "usual" and request.cap is None:
            least = 2 * least if lengths.count >= LEAST_REPLIES else least
        elif request.least == "whole":
            least = int(min(most, max(least, lengths.useful(self._tightest_limit(rate)))))
        costs = (prompt, rate.cost(prompt, 0))
        for level in self.chain():
            for index, limit in level.bounds:
                each = (1, rate.output)[index] if index != CALLS else 0
                if not each:
                    continue
                room = (limit - level.spent[index] - costs[index]) // each
                if request.cap is None:
                    useful = lengths.useful(limit / each)
                    room = max(room - level.kept[index] // each, min(room, useful))
                    sharing = max(1, level.holders + level.waiting, level.branches)
                    share = room // sharing
                    room = max(share // 2, min(share, MODEST_OUTPUT), min(room, lengths.whole(limit / each)))
                most = min(most, room)
        return max(int(most), least)


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


class ReservationRequest(NamedTuple):
    """The most that one call may cost; only a model request has a prompt, an output cap and a rate.

    `note` is the size of the notice that is added to the prompt when the cap is smaller than it should be. A call that
    `starts_run` gets a share of what remains, or again what was `held` for the same run before; its prompt is that of
    the first request of the run. One without room for the `least` reply that is of use is refused: half of a usual one,
    a usual one, or one a little longer than the longest so far.
    """

    prompt: int = 0
    cap: int | None = None
    model: bool = False
    rate: Rate | None = None
    note: int = 0
    starts_run: bool = False
    held: Cost | None = None
    least: Literal["part", "usual", "whole"] = "part"


NO_RATE = Rate(0, 0)


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
