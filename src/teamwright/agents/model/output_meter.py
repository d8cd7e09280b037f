"""Measures the output of a model while it streams, and says when to read no further.

A server may ignore the output cap that it was sent, or never stop. Tokens are counted from below: a tokenizer makes at
least one of each word and of each sixteen bytes or so, so a server that keeps to its cap is never cut here.
"""

from __future__ import annotations

from enum import Enum

from teamwright.values.limits.reply import text_size

MOST_BYTES_PER_TOKEN = 16
FEW_BYTES = 1024
"""So few may be long tokens alone, such as rules and blanks, which says nothing of the rest."""


class Stop(Enum):
    """Why a stream is read no further."""

    SIZE = "its size cap"
    TOKENS = "its output cap"


class OutputMeter:
    """Counts the text of one reply: `max_bytes` in all, and `max_tokens` where the request has an output cap."""

    def __init__(self, max_bytes: int, max_tokens: int | None = None) -> None:
        self._max_bytes, self._max_tokens = max_bytes, max_tokens
        self._bytes = self._words = 0
        self._in_word = False

    def add(self, text: str) -> Stop | None:
        """Count a piece; gives the reason to stop, if there is one."""
        if not text:
            return None
        self._bytes += text_size(text)
        if self._max_tokens is not None:
            words = len(text.split())
            self._words += words - (self._in_word and words > 0 and not text[0].isspace())
            self._in_word = not text[-1].isspace()
        if self._bytes > self._max_bytes:
            return Stop.SIZE
        if self._max_tokens is not None and self._least_tokens > self._max_tokens:
            return Stop.TOKENS
        return None

    @property
    def _least_tokens(self) -> int:
        """The fewest tokens that this much output can be."""
        return max(self._words, (self._bytes - FEW_BYTES) // MOST_BYTES_PER_TOKEN)
