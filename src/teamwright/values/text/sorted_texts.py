"""Texts in order, to which more are added one by one and in which those with a given beginning are found.

They are kept in short lists, so that adding one moves few others, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

LONGEST_LIST = 1000


class SortedTexts:
    """A sorted list of texts."""

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: list[list[str]] = [[]]

    def add(self, text: str) -> None:
        """Put a text in its place."""
        place = self._place(text)
        texts = self._lists[place]
        insort(texts, text)
        if len(texts) > LONGEST_LIST:
            half = len(texts) // 2
            self._lists[place : place + 1] = [texts[:half], texts[half:]]

    def beginning_with(self, start: str) -> Iterator[str]:
        """The texts with this beginning, in order."""
        first = self._place(start)
        for place in range(first, len(self._lists)):
            texts = self._lists[place]
            for index in range(bisect_left(texts, start) if place == first else 0, len(texts)):
                if not texts[index].startswith(start):
                    return
                yield texts[index]

    def _place(self, text: str) -> int:
        """The last of the lists that begin before a text, else the first."""
        return max(bisect_left(self._lists, text, key=lambda texts: texts[0] if texts else "") - 1, 0)
