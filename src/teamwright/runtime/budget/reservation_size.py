"""How much a call reserves: what it costs at most and probably, and the longest output that it may have.

The worst case of a model request is its prompt and its output cap; without a cap of its own it gets a fair share of
what remains, between those that hold something, those that wait, and branches that may be about to ask. How long the
replies so far were says which share is of use.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Literal, NamedTuple

from teamwright.values.limits import (
    AMPLE_OUTPUT,
    CALLS,
    MODEST_OUTPUT,
    ONE_CALL,
    TOKENS,
    USD,
    USEFUL_OUTPUT,
    Cost,
    Rate,
    scaled_output,
)

if TYPE_CHECKING:
    from teamwright.runtime.budget.ledger import Account

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


def worst_case(account: Account, request: ReservationRequest) -> tuple[Cost, Cost, int | None, bool]:
    """Return what a call costs at most and probably, its output cap, and whether that is less than it should be."""
    if not request.model:
        if request.starts_run:
            share = request.held or _share(account, request)
            return share, _likely_run(account, share), None, False
        return ONE_CALL, ONE_CALL, None, False
    rate, lengths = request.rate or NO_RATE, account.outermost.lengths
    if request.cap is None and not _limits_output(account, rate):
        most = Cost(request.prompt + MODEST_OUTPUT, rate.cost(request.prompt, MODEST_OUTPUT))
        return most, most, None, False
    cap = _cap(account, request, rate, request.prompt)
    cut = cap < (lengths.ample() if request.cap is None else request.cap)
    prompt = request.prompt + (request.note if cut else 0)
    if prompt > request.prompt:
        cap = min(cap, _cap(account, request, rate, prompt))
    usual = min(cap, lengths.usual(_guess(account, rate))) if lengths.count else cap
    likely = Cost(prompt + usual, rate.cost(prompt, usual))
    return Cost(prompt + cap, rate.cost(prompt, cap)), likely, cap, cut


def _guess(account: Account, rate: Rate) -> int:
    """Return how long a reply is before any is known: less under a small limit, which expects short ones."""
    return scaled_output(USEFUL_OUTPUT, _tightest_limit(account, rate))


def _tightest_limit(account: Account, rate: Rate) -> float:
    """Return the output tokens that the tightest limit allows, be it in tokens or in money."""
    prices = (1, rate.output, 0)
    bounds = [(limit, prices[index]) for level in account.chain() for index, limit in level.bounds]
    return min((limit / price for limit, price in bounds if price), default=inf)


def _share(account: Account, request: ReservationRequest) -> Cost:
    """Return a share of what remains, of each unit that has a bound, for a call that starts a run.

    As with output caps, it is shared between calls that hold something, calls that wait, and branches. It is a
    share of the whole: what is kept back is needed when the run has ended, and most of a share is returned. No
    share is too small for a first request and another one, nor for a run like those before: then fewer run at once.
    Where others hold what a larger share lacks, a half of it will do, so that the run need not wait for them.
    """
    rate, guess = request.rate or NO_RATE, _guess(account, request.rate or NO_RATE)
    least = [0, 0, 1]
    if request.prompt:
        least = [RUN_REQUESTS * (request.prompt + guess), RUN_REQUESTS * rate.cost(request.prompt, guess), 1]
    if count := account.outermost.run_count:
        usual = [RUN_REQUESTS * cost // count for cost in account.outermost.run_costs]
        least = list(map(max, least, usual))
    share: list[int | None] = [None, None, None]
    for level in account.chain():
        sharing = max(1, level.holders + level.waiting, level.branches)
        for index, limit in level.bounds:
            left = max(1, limit - level.spent[index])
            room = max(left // sharing, min(left, least[index]))
            room = max(min(room, left - level.held[index]), -(-room // 2), min(left, least[index]))
            known = share[index]
            share[index] = room if known is None else min(known, room)
    tokens, usd, calls = share
    return Cost(tokens or 0, usd or 0, calls or 0)


def _likely_run(account: Account, share: Cost) -> Cost:
    """Return what a run will probably cost: as much as those before it, else its share without what is kept."""
    outer = account.outermost
    if outer.run_count:
        return Cost(*(min(one, -(-cost // outer.run_count)) for one, cost in zip(share, outer.run_costs, strict=True)))
    likely = list(share)
    for level in account.chain():
        sharing = max(1, level.holders + level.waiting, level.branches)
        for index, limit in level.bounds:
            likely[index] = min(likely[index], max(0, limit - level.spent[index] - level.kept[index]) // sharing)
    return Cost(*likely)


def _limits_output(account: Account, rate: Rate) -> bool:
    """Whether a limit on tokens, or on money where the price is known, applies to this account."""
    limited = {index for level in account.chain() for index, _ in level.bounds}
    return TOKENS in limited or (USD in limited and rate.output > 0)


def _cap(account: Account, request: ReservationRequest, rate: Rate, prompt: int) -> int:
    """Return the output cap of a request: its own as far as it fits, else an equal share of what remains.

    What remains is shared between calls that hold tokens, calls that wait, and branches that may be about to ask,
    so that no request takes what the others need, and a late one waits for them instead of getting the little that
    they leave. No share is smaller than a whole reply while that remains: then fewer requests are granted at once,
    and the others wait for what those leave, or are refused. Of a large share only half is taken at once: a call
    whose end is never known is charged in full, and the next one needs something too.
    """
    lengths = account.outermost.lengths
    most, least = (inf, lengths.least) if request.cap is None else (request.cap, min(request.cap, USEFUL_OUTPUT))
    if request.least == "usual" and request.cap is None:
        least = 2 * least if lengths.count >= LEAST_REPLIES else least
    elif request.least == "whole":
        least = int(min(most, max(least, lengths.useful(_tightest_limit(account, rate)))))
    costs = (prompt, rate.cost(prompt, 0))
    for level in account.chain():
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
