"""The ledger: nested accounts from which every call is reserved before it leaves and settled when it returns.

Invariant: at every account, spent + held ≤ limit, whatever runs side by side. Only a provider that reports more than
was reserved can break it, and then the next reservation sees that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from teamwright.budget.money import Rate, dollars, picodollars
from teamwright.errors import LimitReached
from teamwright.values.limits import Limits, MessageLimits
from teamwright.values.usage import NOTHING, Amounts, Usage

Bound = Literal["tokens", "usd", "calls"]
BOUNDS: tuple[Bound, ...] = ("tokens", "usd", "calls")
"""What an account counts; its sums stand in this order, money in picodollars."""
TOKENS, USD, CALLS = range(3)

DEFAULT_OUTPUT = 4096
USEFUL_OUTPUT = 256
"""A request that has less room than this, or than its own smaller cap, is not worth what its prompt costs."""
AMPLE_OUTPUT = 1024
"""A request without a cap of its own that gets less than this is told so."""
BYTES_PER_MESSAGE = 16


class Cost(NamedTuple):
    """What a call takes from an account."""

    tokens: int = 0
    usd: int = 0
    calls: int = 1


NO_COST, ONE_CALL = Cost(0, 0, 0), Cost()


def count(sums: list[int], cost: Cost, times: int = 1) -> None:
    """Add a cost to sums in the order of `BOUNDS`, or take it off."""
    sums[TOKENS] += times * cost.tokens
    sums[USD] += times * cost.usd
    sums[CALLS] += times * cost.calls


def charged(usage: Usage, reserved: Cost) -> Cost:
    """What a call that came back is charged: what it reports, or what was reserved where it reports nothing."""
    if usage is NOTHING:
        return reserved
    money = reserved.usd if usage.usd is None else picodollars(usage.usd)
    return Cost(usage.total_tokens or reserved.tokens, money)


class Refusal(LimitReached):
    """A reservation that would not fit with nothing outstanding."""

    def __init__(self, account: Account, index: int, needed: int) -> None:
        self.level = account.name
        self.what: Bound = BOUNDS[index]
        limit = dict(account.bounds)[index]
        self.needed = _plain(index, needed)
        self.limit = _plain(index, limit)
        self.left = _plain(index, max(0, limit - account.spent[index]))
        super().__init__(refusal_text(self.level, self.what, self.needed, self.left, self.limit))


def refusal_text(level: str, what: Bound, needed: float, left: float, limit: float) -> str:
    """A refusal in words."""
    at = level or "the run"
    if what == "usd":
        return f"{at} has ${left:.6g} of ${limit:.6g} left, and the next call may need ${needed:.6g}"
    return f"{at} has {left} of {limit} {what} left, and the next call may need {needed}"


class Account:
    """One level of the ledger. An account without limits only passes on to the ones around it.

    `message` bounds each single model request inside, tightest of all levels around. Who waits at the outermost level
    that bounds anything waits for all levels inside it, so that nobody overtakes anybody there.
    """

    __slots__ = (
        "bounds", "held", "holders", "message", "name", "outermost", "parent", "priced", "queue", "spent", "waiting",
    )  # fmt: skip

    def __init__(self, name: str, limits: Limits | None, parent: Account | None, spent: Cost = NO_COST) -> None:
        self.name, self.parent = name, parent
        self.bounds = tuple(_bounds(limits)) if limits is not None else ()
        self.spent, self.held = list(spent), [0, 0, 0]
        self.holders = self.waiting = 0
        self.queue: deque[_ReservationWaiter] = deque()
        around = parent.outermost if parent is not None else None
        self.outermost: Account = around if around is not None and around.bounds else self
        inner, outer = limits.message if limits else None, parent.message if parent else None
        self.message: MessageLimits | None = inner.tightened(outer) if inner and outer else inner or outer
        self.priced: bool = any(index == USD for index, _ in self.bounds) or (parent is not None and parent.priced)

    def chain(self) -> Iterator[Account]:
        """This account and those around it."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    def for_message(self) -> Account:
        """The account of one model request: this one, or one of its own inside it where requests are bounded."""
        bounds = self.message
        if bounds is None or (bounds.tokens is None and bounds.usd is None):
            return self
        name = f"a message of {self.name or 'the run'}"
        return Account(name, Limits(tokens=bounds.tokens, usd=bounds.usd), self)

    def left(self) -> Amounts:
        """What nobody has spent or set aside yet, at the tightest level for each."""
        found: list[int | None] = [None, None, None]
        for level in self.chain():
            for index, limit in level.bounds:
                free, known = max(0, limit - level.spent[index] - level.held[index]), found[index]
                found[index] = free if known is None else min(known, free)
        money = found[USD]
        return Amounts(tokens=found[TOKENS], usd=None if money is None else dollars(money), calls=found[CALLS])

    def charge(self, cost: Cost) -> None:
        """Add to what was spent here and in every account around."""
        for level in self.chain():
            count(level.spent, cost)

    def correct(self, before: Cost, after: Cost) -> None:
        """What was charged here as the one is the other."""
        count(self.spent, before, -1)
        count(self.spent, after)

    def hold(self, cost: Cost, sign: int) -> None:
        """Set aside, here and in every account around, or let go."""
        for level in self.chain():
            count(level.held, cost, sign)
            level.holders += sign if cost.tokens else 0

    def add_waiting(self, count: int) -> None:
        """So many more will come for a reservation, or fewer: a fair share leaves theirs."""
        for level in self.chain():
            level.waiting += count

    def over(self, cost: Cost, *, with_held: bool) -> int | None:
        """The index of the bound that a reservation would break here, if any."""
        for index, limit in self.bounds:
            held = self.held[index] if with_held else 0
            if self.spent[index] + held + cost[index] > limit:
                return index
        return None

    async def reserve(self, wanted: Wanted) -> Reservation:
        """Set aside the worst case of one call; waits while others hold what it needs, raises `Refusal` if it can't.

        For a model request the worst case is the prompt plus the output cap. Where nothing sets the cap it is the
        smaller of 4096 and a fair share of what is left. A cap that is set and does not fit what is left is made
        smaller, as long as a useful output remains.
        """
        if (granted := self.reserve_now(wanted)) is not None:
            return granted
        waiter = _ReservationWaiter(self, wanted, asyncio.get_running_loop().create_future())
        self.add_waiting(1)
        self.outermost.queue.append(waiter)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.cancelled():
                self.add_waiting(-1)
                self.outermost.serve()
            elif waiter.granted.done() and waiter.granted.exception() is None:
                waiter.granted.result().give_back()
            raise

    def reserve_now(self, wanted: Wanted) -> Reservation | None:
        """The same, or nothing where it would have to wait, also behind others."""
        if any(not waiter.granted.done() for waiter in self.outermost.queue):
            return None
        self.add_waiting(1)
        try:
            return self._grant(wanted)
        finally:
            self.add_waiting(-1)

    def serve(self) -> None:
        """Grant or refuse whoever waits here, in order, up to the first who has to wait on.

        The cost of one settlement is that of those it serves, however many wait behind them.
        """
        while self.queue:
            account, wanted, granted = self.queue[0]
            if granted.done():  # it was stopped, and has said so itself
                self.queue.popleft()
                continue
            try:
                reservation = account._grant(wanted)
            except Refusal as refusal:
                granted.set_exception(refusal)
            else:
                if reservation is None:
                    return
                granted.set_result(reservation)
            self.queue.popleft()
            account.add_waiting(-1)

    def _grant(self, wanted: Wanted) -> Reservation | None:
        cost, cap, cut = self._worst_case(wanted)
        for level in self.chain():
            if (index := level.over(cost, with_held=False)) is not None:
                raise Refusal(level, index, cost[index])
        if any(level.over(cost, with_held=True) is not None for level in self.chain()):
            return None
        self.hold(cost, 1)
        return Reservation(self, cost, cap, cut)

    def _worst_case(self, wanted: Wanted) -> tuple[Cost, int | None, bool]:
        """What a call may cost, its output cap, and whether that is smaller than it should be, which it is told."""
        if not wanted.model:
            return ONE_CALL, None, False
        rate = wanted.rate or NO_RATE
        cap = self._cap(wanted, rate, wanted.prompt)
        cut = cap < (AMPLE_OUTPUT if wanted.cap is None else wanted.cap)
        prompt = wanted.prompt + (wanted.note if cut else 0)
        if prompt > wanted.prompt:
            cap = min(cap, self._cap(wanted, rate, prompt))
        return Cost(prompt + cap, rate.cost(prompt, cap)), cap, cut

    def _cap(self, wanted: Wanted, rate: Rate, prompt: int) -> int:
        """The output cap of a request: its own as far as that fits what is left, or 4096 and an equal share of it.

        What is left is shared between those who hold tokens and those who wait, so that a request which comes late
        waits for the others rather than getting by on the little that they leave. No share is smaller than a useful
        output while there is one: then fewer get an answer, and the others are refused.
        """
        most, least = (DEFAULT_OUTPUT, 1) if wanted.cap is None else (wanted.cap, min(wanted.cap, USEFUL_OUTPUT))
        costs = (prompt, rate.cost(prompt, 0))
        for level in self.chain():
            for index, limit in level.bounds:
                each = (1, rate.output)[index] if index != CALLS else 0
                if not each:
                    continue
                room = (limit - level.spent[index] - costs[index]) // each
                if wanted.cap is None:
                    room = max(room // max(1, level.holders + level.waiting), min(room, USEFUL_OUTPUT))
                most = min(most, room)
        return max(most, least)


@dataclass(slots=True)
class Reservation:
    """What is set aside for one call; ends by exactly one of `settle`, `release`, `forfeit` and `give_back`.

    `cut` says that its output cap is smaller than it asked for, since no more is left.
    """

    account: Account
    cost: Cost
    max_output: int | None
    cut: bool = False

    def settle(self, cost: Cost) -> Cost:
        """Charge what the call cost; returns by how much it went over the reservation."""
        self._end(cost)
        return Cost(max(0, cost.tokens - self.cost.tokens), max(0, cost.usd - self.cost.usd), 0)

    def release(self) -> None:
        """The call did not cost tokens: give them back. It still counts as a call."""
        self._end(ONE_CALL)

    def forfeit(self) -> None:
        """Nobody knows what the call cost: charge it in full."""
        self._end(self.cost)

    def give_back(self) -> None:
        """The call never left: it is as if nothing had been reserved."""
        self._end(NO_COST)

    def _end(self, cost: Cost) -> None:
        self.account.hold(self.cost, -1)
        self.account.charge(cost)
        self.account.outermost.serve()


class Wanted(NamedTuple):
    """What one call may cost at most; only a model request has a prompt, an output cap and a rate.

    `note` is what its prompt grows by if it has to be told that its cap is smaller than it should be.
    """

    prompt: int = 0
    cap: int | None = None
    model: bool = False
    rate: Rate | None = None
    note: int = 0


NO_RATE = Rate(0, 0)


class _ReservationWaiter(NamedTuple):
    account: Account
    wanted: Wanted
    granted: asyncio.Future[Reservation]


def prompt_tokens(prompt_bytes: int, messages: int) -> int:
    """The most that a prompt can count: a token is at least a byte, and each message has a frame."""
    return prompt_bytes + BYTES_PER_MESSAGE * messages


def _bounds(limits: Limits) -> Iterator[tuple[int, int]]:
    if limits.tokens is not None:
        yield TOKENS, limits.tokens
    if limits.usd is not None:
        yield USD, picodollars(limits.usd)
    if limits.calls is not None:
        yield CALLS, limits.calls


def _plain(index: int, amount: int) -> float:
    return dollars(amount) if index == USD else amount
