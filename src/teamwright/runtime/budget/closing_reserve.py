"""What a team keeps back of its budget for its closing asks: the answer of its lead, an aggregator, a last review.

The estimate follows the work: the prompt of a closing ask grows with the replies that it will read. While all of the
work probably fits, its likely cost is kept, less the error of the forecast where the ask can be cut back; otherwise a
generous one, because something has to be left out anyway. It is no promise, and never a whole limit, so that a team
with a small budget works before it closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import NamedTuple, Protocol

from teamwright.runtime.budget.ledger import Account
from teamwright.runtime.budget.prompt_meter import TOKENS_PER_MESSAGE, TOKENS_PER_REQUEST
from teamwright.runtime.budget.reservation_size import LEAST_REPLIES, OUTPUT_MARGIN, ReservationRequest, likely_mean
from teamwright.values.limits import AMPLE_OUTPUT, CHARACTERS_PER_TOKEN, USEFUL_OUTPUT, ClosingAsk, scaled_output
from teamwright.values.turns.turn import Tier
from teamwright.values.usage_and_prices import NO_COST, TOKENS, USD, Cost, Rate, Usage, picodollars

MOST_KEPT_PERCENT = 90
"""The largest part of a limit that is kept back."""

MOST_GUESSED_PERCENT = 50
"""The largest part while sizes are guesses: before the first reply, and beside others before some."""

FITTING_PERCENT = 105
"""Up to which part of a limit the forecast is taken to fit: a forecast errs by more than that on either side."""

EXCERPT_TOKENS = 24
"""What a closing ask reads of a message that a compacted history has only a line of."""

FRAMES = 2 * TOKENS_PER_MESSAGE + TOKENS_PER_REQUEST
"""What is reserved for the frames of a prompt, however long its texts are."""


class AskForecast(Protocol):
    """What the asks of a team will cost, as far as its strategy and the asks so far say."""

    def ask_ended(self, key: str, charged: tuple[int, int]) -> None:
        """Count an ask, and what it was charged, in tokens and picodollars."""
        ...

    def remaining(self, closing: int, begun: int) -> tuple[float, float] | None:
        """Return the tokens and picodollars of all asks to come but the closing ones; so many have begun."""
        ...


class ClosingCutback(Protocol):
    """What is cut back of the closing asks of a team."""

    def tier_of(self, member: str) -> Tier:
        """Return which of its models the member of this name answers with now."""
        ...

    def closing_recent(self) -> int | None:
        """Return how many of the latest messages a closing ask gets in full; `None` for all."""
        ...

    def least_closing_recent(self) -> int | None:
        """Return how many it gets if it is cut back as far as it can be."""
        ...


class ReplyLengths(NamedTuple):
    """The tokens of replies that an estimate assumes: of those that a closing ask reads, and of its own."""

    read: float
    own: int


Bounds = Sequence[tuple[Account, int, int]]
"""The limits around a team: the account of each, its unit and its amount."""


FREE = Rate(0, 0)


@dataclass(slots=True)
class _Requests:
    """What the reservations of model requests say. `rates` are the highest prices of each tier."""

    count: int = 0
    first_prompt: int = 0
    largest_cap: float = 0.0
    texts_reserved: int = 0
    texts_read: int = 0
    rates: dict[Tier, Rate] = field(default_factory=dict[Tier, Rate])
    highest_rate: Rate = FREE

    def add(self, prompt_tokens: int, cap: int | None) -> None:
        self.count += 1
        self.first_prompt = self.first_prompt or prompt_tokens
        self.largest_cap = max(self.largest_cap, inf if cap is None else cap)

    def add_rate(self, rate: Rate, tier: Tier) -> None:
        self.rates[tier] = _highest(self.rates.get(tier, rate), rate)
        self.highest_rate = _highest(self.highest_rate, rate)

    @property
    def excess(self) -> float:
        """How many tokens are reserved for one of a prompt: more than one where its tokens can only be bounded."""
        return max(1.0, self.texts_reserved / self.texts_read) if self.texts_read else 1.0


@dataclass(slots=True)
class _Replies:
    """What the usage of replies says. `read_tokens` and `largest_read` count what others read of them.

    `by_models` are those that a model gave: only they say how long others will be.
    """

    count: int = 0
    by_models: int = 0
    requests: int = 0
    output_tokens: int = 0
    longest_output: int = 0
    most_used: int = 0
    most_usd: int = 0
    read_tokens: int = 0
    largest_read: int = 0

    def add(self, usage: Usage, read: int) -> None:
        self.count += 1
        self.by_models += usage.requests > 0
        self.requests += usage.requests
        self.output_tokens += usage.output_tokens
        self.most_usd = max(self.most_usd, picodollars(usage.usd))
        self.longest_output = max(self.longest_output, usage.output_tokens)
        self.most_used = max(self.most_used, usage.total_tokens)
        self.add_read(read)

    def add_read(self, tokens: int) -> None:
        self.read_tokens += tokens
        self.largest_read = max(self.largest_read, tokens)


class Holdback:
    """What one team keeps back for its closing asks.

    Nothing is kept before its first reply, unless work goes on side by side: there would be nothing to close. `cutback`
    says with what a closing ask is made now. A part of the work with closing asks of its own has its own holdback: to
    the `outer` one of the team it is a single ask, from whose replies the closing asks of the team read one.
    """

    __slots__ = (
        "_account", "_closing", "_cutback", "_forecast", "_is_part", "_kept", "_outer", "_parts", "_replies",
        "_requests", "_running", "_running_closing",
    )  # fmt: skip

    def __init__(
        self,
        account: Account,
        closing: Sequence[ClosingAsk],
        cutback: ClosingCutback | None = None,
        forecast: AskForecast | None = None,
        outer: Holdback | None = None,
        *,
        is_part: bool = False,
    ) -> None:
        self._account, self._closing, self._kept = account, tuple(closing), NO_COST
        self._cutback, self._forecast, self._outer = cutback, forecast, outer
        self._requests, self._replies = _Requests(), _Replies()
        self._running = self._running_closing = self._parts = 0
        self._is_part = is_part
        account.watchers.append(self._update)

    def ask_begins(self, *, closing: bool) -> None:
        """Count an ask of the team. While a closing one runs, nothing is kept back: it was kept for that one."""
        self._running += 1
        self._running_closing += closing
        self._update()

    def part_begins(self, *, closing: bool) -> None:
        """Count a part of the work that has closing asks of its own; with `closing`, the team closes with it."""
        self._parts += 1
        self._running_closing += closing
        self._update()

    def part_ended(self, part: Holdback, *, closing: bool) -> None:
        """Count a part as done: others read one of its replies."""
        self._parts -= 1
        self._running_closing -= closing
        self._replies.add_read(part._replies.largest_read)
        self._update()

    def call_sized(self, request: ReservationRequest, tier: Tier) -> None:
        """Learn the price of a model request, before anything is reserved for it."""
        if self._outer is not None:
            self._outer.call_sized(request, tier)
        if request.rate is not None:
            self._requests.add_rate(request.rate, tier)
            self._update()

    def call_reserved(self, request: ReservationRequest) -> None:
        """Learn from a model request that has its reservation: its prompt and its output cap."""
        if self._outer is not None:
            self._outer.call_reserved(request)
        self._requests.add(request.prompt, request.cap)
        self._update()

    def call_returned(self, reserved: int, read: int) -> None:
        """Learn how many tokens a prompt had, beside those that were reserved for it."""
        if self._outer is not None:
            self._outer.call_returned(reserved, read)
        self._requests.texts_reserved += max(0, reserved - FRAMES)
        self._requests.texts_read += read

    def ask_ended(self, usage: Usage | None, *, closing: bool, read: int | None = None) -> None:
        """Learn from the usage of an ask that ended; `None` if it has no reply. Others read at most `read` tokens."""
        self._running -= 1
        self._running_closing -= closing
        if usage is not None:
            self._replies.add(usage, usage.output_tokens if read is None else min(read, usage.output_tokens))
            if self._outer is not None:  # whose closing asks do not read this reply
                self._outer._replies.add(usage, 0)
                self._outer._update()
        self._update()

    def ask_charged(self, key: str, charged: tuple[int, int]) -> None:
        """Tell the forecast of the team what an ask was charged, in tokens and picodollars."""
        if self._outer is not None:
            self._outer.ask_charged(key, charged)
        elif self._forecast is not None:
            self._forecast.ask_ended(key, charged)

    def cutback_changed(self) -> None:
        """Keep as much as closing asks need with what the team cuts back from now on."""
        self._update()

    def release(self) -> None:
        """Keep nothing back any longer: the team has ended."""
        self._closing = ()
        self._update()
        if self._update in self._account.watchers:
            self._account.watchers.remove(self._update)

    def _update(self) -> None:
        kept = self._estimate() if self._closing and self._has_begun and not self._running_closing else NO_COST
        if kept != self._kept:
            self._kept, before = kept, self._kept
            self._account.keep_back(before, kept)

    @property
    def _has_begun(self) -> bool:
        """Whether there is something to close, or others beside may use up what closes it."""
        beside = self._parts > 0 or (self._is_part and self._account.branches > 1)
        return self._replies.count > 0 or self._running > 1 or beside

    def _estimate(self) -> Cost:
        """Return what all closing asks will need, as far as the limits around the team leave room for it."""
        bounds = [(level, index, limit) for level in self._account.chain() for index, limit in level.bounds]
        tightest, recent = self._tightest_limit(bounds), None
        if self._cutback is not None:
            recent = self._cutback.closing_recent()
        likely = self._cost(self._likely_lengths(tightest), recent)
        if self._fits(likely, bounds):
            most = self._less_error(likely, tightest, bounds)
        else:
            most = list(self._cost(self._generous_lengths(tightest), recent))
        percent = MOST_GUESSED_PERCENT if self._is_guess else MOST_KEPT_PERCENT
        for level, index, limit in bounds:
            kept_by_others = level.kept[index] - self._kept[index]
            most[index] = min(most[index], max(0, limit * percent // 100 - kept_by_others))
        return Cost(*most)

    @property
    def _begun(self) -> int:
        """How many asks run or wait for their turn."""
        return max(self._running, self._account.branches) + self._account.queued

    @property
    def _is_guess(self) -> bool:
        """Whether so little is known that an estimate must not refuse most of the work.

        One or two replies say little of many: a closing ask that reads ten guessed ones seems to need a whole limit.
        """
        replies = max(self._replies.count, self._account.outermost.lengths.count)
        return not self._replies.count or (self._begun > 1 and replies < LEAST_REPLIES)

    def _less_error(self, likely: Cost, tightest: float, bounds: Bounds) -> list[int]:
        """Return the likely cost less what a forecast errs by, so that an error refuses no work that fits.

        If it was no error, the closing asks are cut back: what they cost then is never given away. Their replies are no
        shorter for that.
        """
        kept = list(likely)
        if self._cutback is None or (recent := self._cutback.least_closing_recent()) is None:
            return kept
        own = self._generous_lengths(tightest).own
        read = likely_mean(self._replies.read_tokens, self._replies.by_models, own)
        least = self._cost(ReplyLengths(read, own), recent)
        for _, index, limit in bounds:
            if index in (TOKENS, USD):
                error = limit * (FITTING_PERCENT - 100) // 100
                kept[index] = min(kept[index], max(likely[index] - error, least[index]))
        return kept

    def _cost(self, lengths: ReplyLengths, recent: int | None) -> Cost:
        """Return the cost of all closing asks; they get only so many `recent` messages in full, or all."""
        tokens = usd = 0
        if not self._requests.count:  # no model was asked here: as much as the dearest ask so far, for each
            count, replies = len(self._closing), self._replies
            return Cost(count * replies.most_used, count * replies.most_usd, count)
        for ask in self._closing:
            prompt = self._requests.first_prompt + self._read(ask, lengths.read, recent)
            tokens += prompt + lengths.own
            usd += self._rate(ask).cost(prompt, lengths.own)
        return Cost(tokens, usd, len(self._closing))

    def _fits(self, closing: Cost, bounds: Bounds) -> bool:
        """Whether all of the work probably fits the limits around the team."""
        if self._forecast is None or not self._replies.count:
            return False
        others = self._forecast.remaining(len(self._closing), self._begun)
        if others is None:
            return False
        return all(
            level.spent[index]
            + (level.kept[index] - self._kept[index])
            + max(others[index], level.likely[index])
            + closing[index]
            <= limit * FITTING_PERCENT / 100
            for level, index, limit in bounds
            if index in (TOKENS, USD)
        )

    def _rate(self, ask: ClosingAsk) -> Rate:
        """Return the prices of a closing ask: of the model that its member answers with, else the highest."""
        tier = "primary" if self._cutback is None else self._cutback.tier_of(ask.member)
        return self._requests.rates.get(tier) or self._requests.highest_rate

    def _tightest_limit(self, bounds: Bounds) -> float:
        """Return the output tokens that the tightest limit around the team allows, be it in tokens or in money."""
        prices = {TOKENS: 1, USD: self._requests.highest_rate.output}
        return min((limit / price for _, index, limit in bounds if (price := prices.get(index))), default=inf)

    def _likely_lengths(self, tightest: float) -> ReplyLengths:
        """Return the lengths of replies if those to come, and that of a closing ask, are as long as those so far."""
        replies = self._replies
        guess = self._account.outermost.lengths.usual(scaled_output(USEFUL_OUTPUT, tightest))
        own = ceil(likely_mean(replies.output_tokens, replies.requests, guess))
        read = likely_mean(replies.read_tokens, replies.by_models, guess)
        return ReplyLengths(read, int(min(own, self._requests.largest_cap)))

    def _generous_lengths(self, tightest: float) -> ReplyLengths:
        """Return the lengths of replies if those to come are as long as the longest so far, and the last one longer."""
        useful, ample = scaled_output(USEFUL_OUTPUT, tightest), scaled_output(AMPLE_OUTPUT, tightest)
        replies, largest_cap = self._replies, self._requests.largest_cap
        read = float(replies.largest_read)
        lengths = self._account.outermost.lengths  # of all replies that were charged, be their asks over or not
        if lengths.count >= LEAST_REPLIES:
            useful = ample = ceil(OUTPUT_MARGIN * lengths.longest)
            read = max(read, lengths.longest)
        elif replies.by_models < LEAST_REPLIES:
            read = max(read, min(useful, largest_cap))
        own = max(useful, ceil(OUTPUT_MARGIN * replies.longest_output)) if replies.count else ample
        return ReplyLengths(read, int(min(own, largest_cap)))

    def _read(self, ask: ClosingAsk, reply: float, recent: int | None) -> int:
        """Return the tokens that a closing ask reads, if the replies to come have so many.

        It gets only so many `recent` messages in full, or all.
        """
        replies, running = self._replies, self._running + self._parts
        read, count = replies.read_tokens + running * reply, replies.count + running
        if ask.reads is not None:
            read, count = ask.reads * reply, ask.reads
        if recent is not None and recent < count:
            read = min(read, recent * reply + (count - recent) * EXCERPT_TOKENS)
        return ceil(self._requests.excess * (read + ask.characters / CHARACTERS_PER_TOKEN))


def _highest(one: Rate, other: Rate) -> Rate:
    return Rate(max(one.input, other.input), max(one.output, other.output))
