"""The ledger: nested accounts from which every call is reserved before it leaves and settled when it returns.

Invariant: at every account, spent + held ≤ limit, whatever runs side by side. Only a provider that reports more than
was reserved can break it, and then the next reservation sees that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from teamwright.errors import LimitReached
from teamwright.values.limits import Limits

Bound = Literal["tokens", "calls"]

DEFAULT_OUTPUT = 4096
BYTES_PER_MESSAGE = 16


class Refusal(LimitReached):
    """A reservation that would not fit with nothing outstanding."""

    def __init__(self, account: Account, what: Bound, needed: int) -> None:
        self.level = account.name
        self.what: Bound = what
        self.needed = needed
        self.limit = account.limit(what)
        self.left = max(0, self.limit - account.spent(what))
        super().__init__(refusal_text(self.level, self.what, self.needed, self.left, self.limit))


def refusal_text(level: str, what: Bound, needed: int, left: int, limit: int) -> str:
    """A refusal in words."""
    return f"{level or 'the run'} has {left} of {limit} {what} left, and the next call may need {needed}"


class Account:
    """One level of the ledger. An account without limits only passes on to the ones around it."""

    __slots__ = ("_limits", "_spent", "held_calls", "held_tokens", "holders", "name", "parent")

    def __init__(
        self, name: str, limits: Limits | None, parent: Account | None, tokens: int = 0, calls: int = 0
    ) -> None:
        self.name, self.parent = name, parent
        self._limits = limits or Limits()
        self._spent = {"tokens": tokens, "calls": calls}
        self.held_tokens = self.held_calls = self.holders = 0

    def limit(self, what: Bound) -> int:
        """The bound on tokens or calls; asked only where there is one."""
        bound = self._limits.tokens if what == "tokens" else self._limits.calls
        assert bound is not None
        return bound

    def spent(self, what: Bound) -> int:
        """What has been charged here."""
        return self._spent[what]

    def charge(self, tokens: int, calls: int) -> None:
        """Add to what was spent here and in every account around."""
        for account in self.chain():
            account._spent["tokens"] += tokens
            account._spent["calls"] += calls

    def chain(self) -> Iterator[Account]:
        """This account and those around it."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    def over(self, tokens: int, calls: int, *, with_held: bool) -> Bound | None:
        """Which bound a reservation would break here, if any."""
        held_tokens, held_calls = (self.held_tokens, self.held_calls) if with_held else (0, 0)
        bounds = self._limits
        if bounds.tokens is not None and self._spent["tokens"] + held_tokens + tokens > bounds.tokens:
            return "tokens"
        if bounds.calls is not None and self._spent["calls"] + held_calls + calls > bounds.calls:
            return "calls"
        return None

    def hold(self, tokens: int, calls: int) -> None:
        """Set aside, here and in every account around; negative to let go."""
        for account in self.chain():
            account.held_tokens += tokens
            account.held_calls += calls
            account.holders += (tokens > 0) - (tokens < 0)

    def fair_output(self, prompt: int, waiting: int) -> int:
        """The output cap of a request that names none: the smaller of 4096 and, at the tightest level, an equal share.

        What is left is shared between those who hold tokens and those who wait, so that a request which comes late
        waits for the others rather than getting by on the little that they leave.
        """
        shares = [
            (a._limits.tokens - a._spent["tokens"] - prompt) // (a.holders + waiting)
            for a in self.chain()
            if a._limits.tokens is not None
        ]
        return max(1, min(DEFAULT_OUTPUT, *shares)) if shares else DEFAULT_OUTPUT

    @property
    def bounded(self) -> bool:
        """Whether this level bounds tokens or calls itself."""
        return self._limits.tokens is not None or self._limits.calls is not None


@dataclass(slots=True)
class Reservation:
    """Tokens and a call set aside; ends by exactly one of `settle`, `release`, `forfeit` and `give_back`."""

    ledger: Ledger
    account: Account
    tokens: int
    max_output: int | None

    def settle(self, tokens: int) -> int:
        """Charge what the call cost; returns by how much it went over the reservation."""
        self._end(tokens, 1)
        return max(0, tokens - self.tokens)

    def release(self) -> None:
        """The call did not cost tokens: give them back. It still counts as a call."""
        self._end(0, 1)

    def forfeit(self) -> None:
        """Nobody knows what the call cost: charge it in full."""
        self._end(self.tokens, 1)

    def give_back(self) -> None:
        """The call never left: it is as if nothing had been reserved."""
        self._end(0, 0)

    def _end(self, tokens: int, calls: int) -> None:
        self.account.hold(-self.tokens, -1)
        self.account.charge(tokens, calls)
        self.ledger.serve()


class Wanted(NamedTuple):
    """What one call may cost at most, and where; only a model request has a prompt and an output cap."""

    account: Account
    prompt: int = 0
    cap: int | None = None
    model: bool = False


class _Waiter(NamedTuple):
    wanted: Wanted
    granted: asyncio.Future[Reservation]


class Ledger:
    """Grants reservations first come, first served.

    `elsewhere` counts those who wait for something else and will come for a reservation then: a fair share leaves
    theirs.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []
        self.elsewhere = 0

    async def reserve(self, wanted: Wanted) -> Reservation:
        """Set aside the worst case of one call; waits while others hold what it needs, raises `Refusal` if it can't.

        For a model request the worst case is the prompt plus the output cap. Where nothing sets the cap it is the
        smaller of 4096 and a fair share of what is left.
        """
        waiter = self._queue(wanted)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self.serve()
            elif waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.exception() is None:
                waiter.granted.result().give_back()
            raise

    def reserve_now(self, wanted: Wanted) -> Reservation | None:
        """The same, or nothing where it would have to wait, also behind others."""
        waiter = self._queue(wanted)
        if waiter.granted.done():
            return waiter.granted.result()
        self._waiting.remove(waiter)
        return None

    def _queue(self, wanted: Wanted) -> _Waiter:
        waiter = _Waiter(wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self.serve()
        return waiter

    def serve(self) -> None:
        """Grant or refuse whoever waits, in order; one who can't be served yet keeps its place at its levels."""
        if not self._waiting:
            return
        blocked: set[int] = set()
        still: list[_Waiter] = []
        waiting = len(self._waiting) + self.elsewhere
        for waiter in self._waiting:
            levels = {id(account) for account in waiter.wanted.account.chain() if account.bounded}
            if waiter.granted.done():
                continue
            try:
                grant = None if levels & blocked else self._grant(waiter.wanted, waiting)
            except Refusal as refusal:
                waiter.granted.set_exception(refusal)
                waiting -= 1
                continue
            if grant is None:
                blocked |= levels
                still.append(waiter)
            else:
                waiter.granted.set_result(grant)
                waiting -= 1
        self._waiting = still

    def _grant(self, wanted: Wanted, waiting: int) -> Reservation | None:
        account, prompt, cap, model = wanted
        if model and cap is None:
            cap = account.fair_output(prompt, waiting)
        tokens = prompt + (cap or 0)
        for level in account.chain():
            if what := level.over(tokens, 1, with_held=False):
                raise Refusal(level, what, tokens if what == "tokens" else 1)
        if any(level.over(tokens, 1, with_held=True) for level in account.chain()):
            return None
        account.hold(tokens, 1)
        return Reservation(self, account, tokens, cap)


def prompt_tokens(prompt_bytes: int, messages: int) -> int:
    """The most that a prompt can count: a token is at least a byte, and each message has a frame."""
    return prompt_bytes + BYTES_PER_MESSAGE * messages
