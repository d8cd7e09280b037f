"""Finds JSON in untrusted text in linear time.

Every position where JSON may begin is tried, so attempts may read the same characters again. A shared bound on the
characters read keeps the work linear: a text that consists of openings alone is given up.
"""

from __future__ import annotations

from json import JSONDecodeError, JSONDecoder
from typing import NamedTuple, cast

READ_PER_CHARACTER = 4
"""The most times that a character may be read, on average."""
LEAST_READ = 10_000
NESTED = 1_000
"""The cost of an attempt that is nested too deeply."""

_DECODER = JSONDecoder()


class Found(NamedTuple):
    """A JSON value in a text, and the position of its end."""

    value: object
    end: int


class JsonScan:
    """Decodes JSON at positions of one text; all attempts share a bound on their work."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = LEAST_READ + READ_PER_CHARACTER * len(text)

    def at(self, start: int) -> Found | None:
        """Decode the value that begins here; None where there is none, or where the bound is used up."""
        if self._left <= 0:
            return None
        try:
            value, end = cast("tuple[object, int]", _DECODER.raw_decode(self._text, start))
        except JSONDecodeError as error:
            # An unterminated string is reported at its beginning, but was read to the end.
            reached = len(self._text) if error.msg.startswith(("Unterminated", "Invalid control")) else error.pos
            self._left -= max(1, reached - start)
            return None
        except (ValueError, RecursionError):
            self._left -= NESTED
            return None
        self._left -= end - start
        return Found(value, end)
