"""What a team keeps back of its budget for its closing asks: the answer of its lead, an aggregator, a last review.

The estimate follows the work: the prompt of a closing ask grows with the replies that it will read. It is an estimate
and no promise, and at most nine tenths of a limit, so that a team with a small budget works before it closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from teamwright.budget.ledger import AMPLE_OUTPUT, NO_COST, USEFUL_OUTPUT, Account, Cost
from teamwright.values.limits.usage import CHARACTERS_PER_TOKEN, Usage

OUTPUT_MARGIN = 1.5
"""How much longer than the longest reply so far a closing reply may be."""

LEAST_REPLIES = 3
"""Replies after which the largest of them says how large others will be."""


class Holdback:
    """What one team keeps back. Nothing is kept before its first reply, unless asks run side by side: there would be
    nothing to close.

    `closing` has an item for each closing ask: how many replies it reads, `None` for all of them, and how many
    characters besides.
    """

    __slots__ = (
        "_account",
        "_calls",
        "_closing",
        "_first_prompt",
        "_input_tokens",
        "_kept",
        "_largest_cap",
        "_largest_reply",
        "_longest_output",
        "_most_used",
        "_price",
        "_prompt_tokens",
        "_replies",
        "_reply_tokens",
        "_requests",
        "_running",
        "_running_closing",
    )

    def __init__(self, account: Account, closing: Sequence[tuple[int | None, int]]) -> None:
        self._account, self._closing = account, list(closing)
        self._kept, self._price = NO_COST, 0.0
        self._running = self._running_closing = 0
        self._calls = self._first_prompt = self._prompt_tokens = self._largest_cap = 0
        self._requests = self._input_tokens = self._longest_output = self._most_used = 0
        self._replies = self._reply_tokens = self._largest_reply = 0

    def ask_begins(self, *, closing: bool) -> None:
        """Count an ask of the team. While a closing one runs, nothing is kept back: it was kept for that one."""
        self._running += 1
        self._running_closing += closing
        self._update()

    def call_reserved(self, prompt_tokens: int, cap: int | None, cost: Cost) -> None:
        """Learn from the reservation of a model request: its prompt, its output cap, and its whole cost."""
        self._calls += 1
        self._first_prompt = self._first_prompt or prompt_tokens
        self._prompt_tokens += prompt_tokens
        self._largest_cap = max(self._largest_cap, AMPLE_OUTPUT if cap is None else cap)
        self._price = max(self._price, cost.usd / max(1, cost.tokens))
        self._update()

    def ask_ended(self, usage: Usage | None, *, closing: bool, read: int | None = None) -> None:
        """Learn from the usage of an ask that ended; `None` if it has no reply. Others read at most `read` tokens."""
        self._running -= 1
        self._running_closing -= closing
        if usage is not None:
            self._replies += 1
            self._requests += usage.requests
            self._input_tokens += usage.input_tokens
            self._longest_output = max(self._longest_output, usage.output_tokens)
            self._most_used = max(self._most_used, usage.total_tokens)
            reply = usage.output_tokens if read is None else min(read, usage.output_tokens)
            self._reply_tokens += reply
            self._largest_reply = max(self._largest_reply, reply)
        self._update()

    def release(self) -> None:
        """Keep nothing back any longer: the team has ended."""
        self._closing.clear()
        self._update()

    def _update(self) -> None:
        has_begun = self._replies > 0 or self._running > 1
        kept = self._estimate() if self._closing and has_begun and not self._running_closing else NO_COST
        if kept != self._kept:
            self._kept, before = kept, self._kept
            self._account.keep_back(before, kept)

    def _estimate(self) -> Cost:
        tokens = sum(self._tokens(reads, characters) for reads, characters in self._closing)
        most = Cost(tokens, ceil(tokens * self._price), len(self._closing))
        for level in self._account.chain():
            for index, limit in level.bounds:
                others = level.kept[index] - self._kept[index]
                if most[index] > (bound := max(0, limit * 9 // 10 - others)):
                    most = Cost(*(bound if place == index else value for place, value in enumerate(most)))
        return most

    def _tokens(self, reads: int | None, characters: int) -> int:
        """Return the tokens of a closing ask: the first prompt, the texts that it reads, and its own reply."""
        if not self._calls:  # no model was asked yet, or none at all
            return self._most_used
        reply = self._largest_reply
        if self._replies < LEAST_REPLIES:
            reply = max(reply, min(USEFUL_OUTPUT, self._largest_cap))
        read = self._reply_tokens + self._running * reply if reads is None else reads * reply
        read += characters / CHARACTERS_PER_TOKEN
        output = max(USEFUL_OUTPUT, ceil(OUTPUT_MARGIN * self._longest_output)) if self._replies else AMPLE_OUTPUT
        return self._first_prompt + ceil(self._excess * read) + min(output, self._largest_cap)

    @property
    def _excess(self) -> float:
        """How many tokens are reserved for one of a prompt: more than one where its tokens can only be bounded."""
        if not (self._requests and self._input_tokens):
            return 1.0
        return max(1.0, (self._prompt_tokens / self._calls) / (self._input_tokens / self._requests))
