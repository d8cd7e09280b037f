"""Finds JSON within text that others wrote, in time that grows with the text alone.

Each place where JSON may begin is tried, and one that breaks off late is tried again from its inside. So the characters
that all attempts read together are bounded; a text that holds nothing but beginnings is given up.
"""

from __future__ import annotations

from json import JSONDecodeError, JSONDecoder
from typing import NamedTuple, cast

READ_PER_CHARACTER = 4
"""How often each character of the text may be read, on average."""
LEAST_READ = 10_000
NESTED = 1_000
"""What an attempt counts that is nested too deeply to be read."""

_DECODER = JSONDecoder()


class Found(NamedTuple):
    """A JSON value in a text, and where it ends."""

    value: object
    end: int


class JsonScan:
    """Attempts to read JSON at places of one text, which share a bound on their work."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = LEAST_READ + READ_PER_CHARACTER * len(text)

    def at(self, start: int) -> Found | None:
        """The value that begins here; nothing where none does, or where too much has been read already."""
        if self._left <= 0:
            return None
        try:
            value, end = cast("tuple[object, int]", _DECODER.raw_decode(self._text, start))
        except JSONDecodeError as error:
            # An unterminated text is told at its beginning, and was read to the end.
            reached = len(self._text) if error.msg.startswith(("Unterminated", "Invalid control")) else error.pos
            self._left -= max(1, reached - start)
            return None
        except (ValueError, RecursionError):
            self._left -= NESTED
            return None
        self._left -= end - start
        return Found(value, end)
