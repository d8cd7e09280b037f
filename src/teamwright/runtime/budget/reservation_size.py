"""How much a call reserves: what it costs at most and probably, and the longest output that it may have.

The worst case of a model request is its prompt and its output cap; without a cap of its own it gets a fair share of
what remains, between those that hold something, those that wait, and branches that may be about to ask. How long the
replies so far were says which share is of use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Literal, NamedTuple

from teamwright.values.limits import AMPLE_OUTPUT, MODEST_OUTPUT, USEFUL_OUTPUT, Spend, scaled_output
from teamwright.values.usage_and_prices import CALLS, ONE_CALL, TOKENS, USD, Cost, Rate, picodollars

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


class Balance:
    """What is limited, spent, held and kept back at one level, in tokens, money and calls, and who shares it.

    `likely` is what the calls that hold reservations will probably cost, by the replies so far (`lengths`) and the runs
    that calls have started.
    """

    __slots__ = (
        "bounds", "branches", "held", "holders", "kept", "lengths", "likely", "run_costs", "run_count", "spent",
        "waiting",
    )  # fmt: skip

    def __init__(self, bounds: tuple[tuple[int, int], ...], spent: Cost) -> None:
        self.bounds = bounds
        self.spent, self.held, self.kept, self.likely = list(spent), [0, 0, 0], [0, 0, 0], [0, 0, 0]
        self.holders = self.waiting = self.branches = self.run_count = 0
        self.lengths, self.run_costs = OutputLengths(), [0, 0, 0]

    @property
    def sharing(self) -> int:
        """How many calls and branches share what remains: those that hold something, wait, or may be about to ask."""
        return max(1, self.holders + self.waiting, self.branches)

    def exceeded_bound(self, cost: Cost, likely: Cost, *, with_held: bool, declared: bool) -> int | None:
        """Return the index of the bound that a reservation would exceed here, if any.

        What is kept back need not fit beside the worst case of a call but beside its likely cost: it is needed when the
        call has returned. While others are in flight, what is kept refuses nothing yet: their replies will show how
        much is needed. A call that has `declared` to need nothing of a unit, such as a merge, is not refused for it.
        """
        for index, limit in self.bounds:
            if declared and not cost[index]:
                continue
            held, others = (self.held[index], self.likely[index]) if with_held else (0, 0)
            if self.spent[index] + held + cost[index] > limit:
                return index
            if not self.kept[index] or (self.holders and not with_held):
                continue
            if self.spent[index] + self.kept[index] + others + likely[index] > limit:
                return index
        return None


class ReservationRequest(NamedTuple):
    """The most that one call may cost; only a model request has a prompt, an output cap and a rate.

    `note` is the size of the notice that is added to the prompt when the cap is smaller than it should be. A call that
    `starts_run` gets a share of what remains, or again what was `held` for the same run before; its prompt is that of
    the first request of the run. One with a `ceiling` makes requests that nothing here counts. One without room for the
    `least` reply that is of use is refused: half of a usual one, a usual one, or one a little longer than the longest
    so far.
    """

    prompt: int = 0
    cap: int | None = None
    model: bool = False
    rate: Rate | None = None
    note: int = 0
    starts_run: bool = False
    held: Cost | None = None
    least: Literal["part", "usual", "whole"] = "part"
    ceiling: Spend | None = None


class Levels(NamedTuple):
    """The levels that a call is charged to, innermost first, and the outermost with limits, which saw most calls."""

    chain: Sequence[Balance]
    outermost: Balance


NO_RATE = Rate(0, 0)


def worst_case(levels: Levels, request: ReservationRequest) -> tuple[Cost, Cost, int | None, bool]:
    """Return what a call costs at most and probably, its output cap, and whether that is less than it should be."""
    if not request.model:
        if request.starts_run:
            share = request.held or _share(levels, request)
            return share, _likely_run(levels, share), None, False
        most = ONE_CALL if request.ceiling is None else _below_ceiling(levels, request.ceiling)
        return most, most, None, False
    rate, lengths = request.rate or NO_RATE, levels.outermost.lengths
    if request.cap is None and not _limits_output(levels, rate):
        most = Cost(request.prompt + MODEST_OUTPUT, rate.cost(request.prompt, MODEST_OUTPUT))
        return most, most, None, False
    cap = _cap(levels, request, rate, request.prompt)
    cut = cap < (lengths.ample() if request.cap is None else request.cap)
    prompt = request.prompt + (request.note if cut else 0)
    if prompt > request.prompt:
        cap = min(cap, _cap(levels, request, rate, prompt))
    usual = min(cap, lengths.usual(_guess(levels, rate))) if lengths.count else cap
    likely = Cost(prompt + usual, rate.cost(prompt, usual))
    return Cost(prompt + cap, rate.cost(prompt, cap)), likely, cap, cut


def _below_ceiling(levels: Levels, ceiling: Spend) -> Cost:
    """Return what a call reserves that makes requests of its own: its ceiling, and of what that leaves open a share.

    Only half of the share is taken: a call whose end is never known is charged in full, and the next needs something.
    """
    share = _share(levels, ReservationRequest())
    tokens = -(-share.tokens // 2) if ceiling.tokens is None else ceiling.tokens
    return Cost(tokens, -(-share.usd // 2) if ceiling.usd is None else picodollars(ceiling.usd))


def _guess(levels: Levels, rate: Rate) -> int:
    """Return how long a reply is before any is known: less under a small limit, which expects short ones."""
    return scaled_output(USEFUL_OUTPUT, _tightest_limit(levels, rate))


def _tightest_limit(levels: Levels, rate: Rate) -> float:
    """Return the output tokens that the tightest limit allows, be it in tokens or in money."""
    prices = (1, rate.output, 0)
    bounds = [(limit, prices[index]) for level in levels.chain for index, limit in level.bounds]
    return min((limit / price for limit, price in bounds if price), default=inf)


def _share(levels: Levels, request: ReservationRequest) -> Cost:
    """Return a share of what remains, of each unit that has a bound, for a call that starts a run.

    As with output caps, it is shared between calls that hold something, calls that wait, and branches. It is a
    share of the whole: what is kept back is needed when the run has ended, and most of a share is returned. No
    share is too small for a first request and another one, nor for a run like those before: then fewer run at once.
    Where others hold what a larger share lacks, a half of it will do, so that the run need not wait for them.
    """
    rate, guess = request.rate or NO_RATE, _guess(levels, request.rate or NO_RATE)
    least = [0, 0, 1]
    if request.prompt:
        least = [RUN_REQUESTS * (request.prompt + guess), RUN_REQUESTS * rate.cost(request.prompt, guess), 1]
    if count := levels.outermost.run_count:
        usual = [RUN_REQUESTS * cost // count for cost in levels.outermost.run_costs]
        least = list(map(max, least, usual))
    share: list[int | None] = [None, None, None]
    for level in levels.chain:
        sharing = level.sharing
        for index, limit in level.bounds:
            left = max(1, limit - level.spent[index])
            room = max(left // sharing, min(left, least[index]))
            room = max(min(room, left - level.held[index]), -(-room // 2), min(left, least[index]))
            known = share[index]
            share[index] = room if known is None else min(known, room)
    tokens, usd, calls = share
    return Cost(tokens or 0, usd or 0, calls or 0)


def _likely_run(levels: Levels, share: Cost) -> Cost:
    """Return what a run will probably cost: as much as those before it, else its share without what is kept."""
    outer = levels.outermost
    if outer.run_count:
        return Cost(*(min(one, -(-cost // outer.run_count)) for one, cost in zip(share, outer.run_costs, strict=True)))
    likely = list(share)
    for level in levels.chain:
        sharing = level.sharing
        for index, limit in level.bounds:
            likely[index] = min(likely[index], max(0, limit - level.spent[index] - level.kept[index]) // sharing)
    return Cost(*likely)


def _limits_output(levels: Levels, rate: Rate) -> bool:
    """Whether a limit on tokens, or on money where the price is known, applies at one of these levels."""
    limited = {index for level in levels.chain for index, _ in level.bounds}
    return TOKENS in limited or (USD in limited and rate.output > 0)


def _cap(levels: Levels, request: ReservationRequest, rate: Rate, prompt: int) -> int:
    """Return the output cap of a request: its own as far as it fits, else an equal share of what remains.

    What remains is shared between calls that hold tokens, calls that wait, and branches that may be about to ask,
    so that no request takes what the others need, and a late one waits for them instead of getting the little that
    they leave. No share is smaller than a whole reply while that remains: then fewer requests are granted at once,
    and the others wait for what those leave, or are refused. Of a large share only half is taken at once: a call
    whose end is never known is charged in full, and the next one needs something too.
    """
    lengths = levels.outermost.lengths
    most, least = (inf, lengths.least) if request.cap is None else (request.cap, min(request.cap, USEFUL_OUTPUT))
    if request.least == "usual" and request.cap is None:
        least = 2 * least if lengths.count >= LEAST_REPLIES else least
    elif request.least == "whole":
        least = int(min(most, max(least, lengths.useful(_tightest_limit(levels, rate)))))
    costs = (prompt, rate.cost(prompt, 0))
    for level in levels.chain:
        for index, limit in level.bounds:
            each = (1, rate.output)[index] if index != CALLS else 0
            if not each:
                continue
            room = (limit - level.spent[index] - costs[index]) // each
            if request.cap is None:
                useful = lengths.useful(limit / each)
                room = max(room - level.kept[index] // each, min(room, useful))
                sharing = level.sharing
                share = room // sharing
                room = max(share // 2, min(share, MODEST_OUTPUT), min(room, lengths.whole(limit / each)))
            most = min(most, room)
    return max(int(most), least)
