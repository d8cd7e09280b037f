"""What a team keeps back of its budget for its closing asks: the answer of its lead, an aggregator, a last review.

The estimate follows the work: the prompt of a closing ask grows with the replies that it will read. It is an estimate
and no promise, and at most three quarters of a limit, so that a team with a small budget works before it closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from teamwright.budget.ledger import AMPLE_OUTPUT, NO_COST, USEFUL_OUTPUT, Account, Cost

OUTPUT_MARGIN = 1.5
"""How much longer than the longest reply so far a closing reply may be."""

LEAST_REPLIES = 3
"""Replies after which the largest of them says how large others will be."""


class Holdback:
    """What one team keeps back. Nothing is kept before its first call: there would be nothing to close.

    `reads` has an item for each closing ask: how many replies it reads; `None` for all of them.
    """

    __slots__ = (
        "_account",
        "_kept",
        "_largest_cap",
        "_largest_reply",
        "_longest_output",
        "_most_used",
        "_price",
        "_prompt_bytes",
        "_rate",
        "_reads",
        "_replies",
        "_reply_bytes",
        "_running",
        "_running_closing",
        "_started",
    )

    def __init__(self, account: Account, reads: Sequence[int | None]) -> None:
        self._account, self._reads = account, list(reads)
        self._kept, self._started = NO_COST, False
        self._running = self._running_closing = 0
        self._prompt_bytes, self._rate, self._price = 0, 1.0, 0.0
        self._largest_cap = self._largest_reply = self._longest_output = self._most_used = 0
        self._replies = self._reply_bytes = 0

    def ask_begins(self, *, closing: bool) -> None:
        """Count an ask of the team. While a closing one runs, nothing is kept back: it was kept for that one."""
        self._running += 1
        self._running_closing += closing
        self._update()

    def call_reserved(self, prompt_bytes: int, prompt_tokens: int, cap: int | None, cost: Cost) -> None:
        """Learn from a reservation of the team: the prompt in bytes and tokens, the output cap, and the whole cost."""
        self._started = True
        if prompt_bytes:
            self._prompt_bytes, self._rate = self._prompt_bytes or prompt_bytes, prompt_tokens / prompt_bytes
            self._largest_cap = max(self._largest_cap, AMPLE_OUTPUT if cap is None else cap)
            self._price = cost.usd / cost.tokens if cost.tokens else 0.0
        self._update()

    def ask_ended(self, reply_bytes: int, output_tokens: int, tokens: int, *, closing: bool) -> None:
        """Learn from an ask that ended: the size of its reply, its output, and all that its turn used."""
        self._started = True
        self._running -= 1
        self._running_closing -= closing
        self._replies += bool(reply_bytes)
        self._reply_bytes += reply_bytes
        self._largest_reply = max(self._largest_reply, reply_bytes)
        self._longest_output = max(self._longest_output, output_tokens)
        self._most_used = max(self._most_used, tokens)
        self._update()

    def release(self) -> None:
        """Keep nothing back any longer: the team has ended."""
        self._reads.clear()
        self._update()

    def _update(self) -> None:
        kept = self._estimate() if self._reads and self._started and not self._running_closing else NO_COST
        if kept != self._kept:
            self._kept, before = kept, self._kept
            self._account.keep_back(before, kept)

    def _estimate(self) -> Cost:
        tokens = sum(map(self._tokens, self._reads))
        most = Cost(tokens, ceil(tokens * self._price), len(self._reads))
        for level in self._account.chain():
            for index, limit in level.bounds:
                if most[index] > (bound := limit * 3 // 4):
                    most = Cost(*(bound if place == index else value for place, value in enumerate(most)))
        return most

    def _tokens(self, reads: int | None) -> int:
        """Return the tokens of a closing ask: the first prompt, the replies that it reads, and its own reply."""
        if not self._prompt_bytes:  # no model was asked yet, or none at all
            return self._most_used
        reply = self._largest_reply
        if self._replies < LEAST_REPLIES:
            reply = max(reply, ceil(min(USEFUL_OUTPUT, self._largest_cap) / self._rate))
        read = self._reply_bytes + self._running * reply if reads is None else reads * reply
        output = max(USEFUL_OUTPUT, ceil(OUTPUT_MARGIN * self._longest_output)) if self._most_used else AMPLE_OUTPUT
        return ceil(self._rate * (self._prompt_bytes + read)) + min(output, self._largest_cap)
