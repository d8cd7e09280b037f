"""A sorted collection of strings with search by prefix.

It consists of short lists, so that an insertion moves few elements, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

LONGEST_LIST = 1000


class SortedTexts:
    """A sorted collection of strings."""

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: list[list[str]] = [[]]

    def add(self, text: str) -> None:
        """Insert a string."""
        place = self._place(text)
        texts = self._lists[place]
        insort(texts, text)
        if len(texts) > LONGEST_LIST:
            half = len(texts) // 2
            self._lists[place : place + 1] = [texts[:half], texts[half:]]

    def beginning_with(self, start: str) -> Iterator[str]:
        """Yield the strings with this prefix, in order."""
        first = self._place(start)
        for place in range(first, len(self._lists)):
            texts = self._lists[place]
            for index in range(bisect_left(texts, start) if place == first else 0, len(texts)):
                if not texts[index].startswith(start):
                    return
                yield texts[index]

    def _place(self, text: str) -> int:
        """The index of the last list that begins before a string, or the first list."""
        return max(bisect_left(self._lists, text, key=lambda texts: texts[0] if texts else "") - 1, 0)
