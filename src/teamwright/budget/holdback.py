"""What a team keeps back of its budget for its closing asks: the answer of its lead, an aggregator, a last review.

The estimate follows the work: the prompt of a closing ask grows with the replies that it will read. It is an estimate
and no promise, and never a whole limit, so that a team with a small budget works before it closes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from operator import mul

from teamwright.budget.ledger import (
    AMPLE_OUTPUT,
    NO_COST,
    TOKENS,
    USD,
    USEFUL_OUTPUT,
    Account,
    Cost,
    ReservationRequest,
    scaled_output,
)
from teamwright.values.limits.closing_ask import ClosingAsk
from teamwright.values.limits.usage import CHARACTERS_PER_TOKEN, Usage
from teamwright.values.turns.turn import Tier

MOST_KEPT_PERCENT = 90
"""The largest part of a limit that is kept back."""

MOST_GUESSED_PERCENT = 50
"""The largest part before the first reply, when all sizes are guesses."""

OUTPUT_MARGIN = 1.5
"""How much longer than the longest reply so far a closing reply may be."""

LEAST_REPLIES = 3
"""Replies after which the largest of them says how large others will be."""


@dataclass(slots=True)
class _Requests:
    """What the reservations of model requests say. `prices` are the highest ones, in picodollars per token."""

    count: int = 0
    first_prompt: int = 0
    prompt_tokens: int = 0
    largest_cap: int = 0
    prices: dict[Tier, float] = field(default_factory=dict[Tier, float])

    def add(self, prompt_tokens: int, cap: int | None) -> None:
        self.count += 1
        self.first_prompt = self.first_prompt or prompt_tokens
        self.prompt_tokens += prompt_tokens
        self.largest_cap = max(self.largest_cap, AMPLE_OUTPUT if cap is None else cap)

    @property
    def highest_price(self) -> float:
        return max(self.prices.values(), default=0.0)


@dataclass(slots=True)
class _Replies:
    """What the usage of replies says. `read_tokens` and `largest_read` count what others read of them."""

    count: int = 0
    requests: int = 0
    input_tokens: int = 0
    longest_output: int = 0
    most_used: int = 0
    read_tokens: int = 0
    largest_read: int = 0

    def add(self, usage: Usage, read: int) -> None:
        self.count += 1
        self.requests += usage.requests
        self.input_tokens += usage.input_tokens
        self.longest_output = max(self.longest_output, usage.output_tokens)
        self.most_used = max(self.most_used, usage.total_tokens)
        self.read_tokens += read
        self.largest_read = max(self.largest_read, read)


class Holdback:
    """What one team keeps back for its closing asks.

    Nothing is kept before its first reply, unless asks run side by side: there would be nothing to close. `tier_of`
    returns which of its models a member, given by name, answers with now.
    """

    __slots__ = ("_account", "_closing", "_kept", "_replies", "_requests", "_running", "_running_closing", "_tier_of")

    def __init__(
        self, account: Account, closing: Sequence[ClosingAsk], tier_of: Callable[[str], Tier] | None = None
    ) -> None:
        self._account, self._closing, self._kept = account, tuple(closing), NO_COST
        self._tier_of = tier_of
        self._requests, self._replies = _Requests(), _Replies()
        self._running = self._running_closing = 0

    def ask_begins(self, *, closing: bool) -> None:
        """Count an ask of the team. While a closing one runs, nothing is kept back: it was kept for that one."""
        self._running += 1
        self._running_closing += closing
        self._update()

    def call_sized(self, request: ReservationRequest, tier: Tier) -> None:
        """Learn the price of a model request, before anything is reserved for it."""
        if request.rate is not None:
            output = AMPLE_OUTPUT if request.cap is None else request.cap
            price = request.rate.cost(request.prompt, output) / max(1, request.prompt + output)
            prices = self._requests.prices
            prices[tier] = max(prices.get(tier, 0.0), price)
            self._update()

    def call_reserved(self, request: ReservationRequest) -> None:
        """Learn from a model request that has its reservation: its prompt and its output cap."""
        self._requests.add(request.prompt, request.cap)
        self._update()

    def ask_ended(self, usage: Usage | None, *, closing: bool, read: int | None = None) -> None:
        """Learn from the usage of an ask that ended; `None` if it has no reply. Others read at most `read` tokens."""
        self._running -= 1
        self._running_closing -= closing
        if usage is not None:
            self._replies.add(usage, usage.output_tokens if read is None else min(read, usage.output_tokens))
        self._update()

    def release(self) -> None:
        """Keep nothing back any longer: the team has ended."""
        self._closing = ()
        self._update()

    def _update(self) -> None:
        has_begun = self._replies.count > 0 or self._running > 1
        kept = self._estimate() if self._closing and has_begun and not self._running_closing else NO_COST
        if kept != self._kept:
            self._kept, before = kept, self._kept
            self._account.keep_back(before, kept)

    def _estimate(self) -> Cost:
        """Return what all closing asks will need, as far as the limits around the team leave room for it."""
        tightest = self._tightest_limit()
        tokens = [self._tokens(ask, tightest) for ask in self._closing]
        usd = sum(map(mul, tokens, map(self._price, self._closing)))
        most = [sum(tokens), ceil(usd), len(self._closing)]
        percent = MOST_KEPT_PERCENT if self._replies.count else MOST_GUESSED_PERCENT
        for level in self._account.chain():
            for index, limit in level.bounds:
                kept_by_others = level.kept[index] - self._kept[index]
                most[index] = min(most[index], max(0, limit * percent // 100 - kept_by_others))
        return Cost(*most)

    def _price(self, ask: ClosingAsk) -> float:
        """Return the price of a closing ask: of the model that its member answers with, else the highest."""
        tier = "primary" if self._tier_of is None else self._tier_of(ask.member)
        return self._requests.prices.get(tier, self._requests.highest_price)

    def _tightest_limit(self) -> float:
        """Return the tokens that the tightest limit around the team allows, be it in tokens or in money."""
        prices = {TOKENS: 1.0, USD: self._requests.highest_price}
        bounds = [bound for level in self._account.chain() for bound in level.bounds]
        return min((limit / price for index, limit in bounds if (price := prices.get(index))), default=inf)

    def _tokens(self, ask: ClosingAsk, tightest: float) -> int:
        """Return the tokens of a closing ask: the first prompt, the texts that it reads, and its own reply."""
        useful, ample = scaled_output(USEFUL_OUTPUT, tightest), scaled_output(AMPLE_OUTPUT, tightest)
        requests, replies = self._requests, self._replies
        if not requests.count:  # no model was asked yet, or none at all
            return replies.most_used
        reply = replies.largest_read
        if replies.count < LEAST_REPLIES:
            reply = max(reply, min(useful, requests.largest_cap))
        read = replies.read_tokens + self._running * reply if ask.reads is None else ask.reads * reply
        read += ask.characters / CHARACTERS_PER_TOKEN
        output = max(useful, ceil(OUTPUT_MARGIN * replies.longest_output)) if replies.count else ample
        return requests.first_prompt + ceil(self._excess * read) + min(output, requests.largest_cap)

    @property
    def _excess(self) -> float:
        """How many tokens are reserved for one of a prompt: more than one where its tokens can only be bounded."""
        requests, replies = self._requests, self._replies
        if not (replies.requests and replies.input_tokens):
            return 1.0
        return max(1.0, (requests.prompt_tokens / requests.count) / (replies.input_tokens / replies.requests))
