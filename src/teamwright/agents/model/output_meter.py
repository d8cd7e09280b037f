"""Measures the output of a model while it streams, and decides when to stop reading.

A server may ignore the output cap, or never stop. The meter underestimates tokens (at least one for each word and for
about every sixteen bytes), so that a server that respects its cap is never cut here.
"""

from __future__ import annotations

from enum import Enum

from teamwright.values.limits.reply import text_size

MOST_BYTES_PER_TOKEN = 16
FEW_BYTES = 1024
"""Bytes that are not counted: a short output may consist of long tokens only, such as rules and spaces."""


MOST_BLANK = 2000
"""The characters of white space in a row, or little more, after which a reply in JSON is taken to have ended."""


class Stop(Enum):
    """Why reading a stream stopped."""

    SIZE = "its size cap"
    TOKENS = "its output cap"
    BLANK = "white space without end"


class OutputMeter:
    """Counts the output of one reply against `max_bytes`, and against `max_tokens` if the request has an output cap.

    A reply in JSON (`is_json`) is also stopped by white space without end, which some grammars of servers allow.
    """

    def __init__(self, max_bytes: int, max_tokens: int | None = None, *, is_json: bool = False) -> None:
        self._max_bytes, self._max_tokens, self._is_json = max_bytes, max_tokens, is_json
        self._bytes = self._words = self._blank = 0
        self._in_word = False

    def add(self, text: str) -> Stop | None:
        """Count a piece of output; return the reason to stop, if there is one."""
        if not text:
            return None
        self._bytes += text_size(text)
        words = len(text.split())
        self._words += words - (self._in_word and words > 0 and not text[0].isspace())
        self._in_word = not text[-1].isspace()
        if self._bytes > self._max_bytes:
            return Stop.SIZE
        if self._max_tokens is not None and self.least_tokens > self._max_tokens:
            return Stop.TOKENS
        if self._is_json:
            self._blank = len(text) - len(text.rstrip()) + (0 if words else self._blank)
            if self._blank > MOST_BLANK:
                return Stop.BLANK
        return None

    @property
    def least_tokens(self) -> int:
        """A lower bound on the tokens of the output so far."""
        return max(self._words, (self._bytes - FEW_BYTES) // MOST_BYTES_PER_TOKEN)
