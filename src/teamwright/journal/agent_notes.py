"""The notes that agents keep across runs, in named memories: the contract of their store, and how they are searched.

A note is written and forgotten once for each key, however often the call is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol
from unicodedata import combining, normalize

WORD = re.compile(r"\w+")
SHORTEST_PART = 3
MOST_PARTS = 100
"""How many parts of words are looked for: a model may send a query of any length."""


@dataclass(frozen=True, slots=True)
class Note:
    """One note: its text, the memory that it belongs to, and who wrote it when."""

    id: int
    memory: str
    text: str
    author: str
    run_id: str
    time: float


class Notes(Protocol):
    """A store of notes, in named memories."""

    async def add(self, note: Note, *, key: str, most: int) -> Note | None:
        """Add a note and return it with its id; the note with the same key or text, if there is one.

        Returns `None` if the memory holds `most` notes already.
        """
        ...

    async def search(self, memory: str, words: Sequence[str], limit: int) -> list[Note]:
        """Return the notes that contain any of the words, the best match first; the newest ones without words.

        If no note contains one, return those that are similar.
        """
        ...

    async def forget(self, memory: str, note: int, *, key: str) -> bool:
        """Remove a note; returns whether it was there before the first call with this key."""
        ...

    async def memories(self) -> dict[str, int]:
        """Return the number of notes in each memory, by name."""
        ...


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return [word.lower() for word in WORD.findall(text)]


def rank_notes(newest_first: Sequence[Note], words: Sequence[str], limit: int) -> list[Note]:
    """Return the notes that contain most of the words; if none contains one, those that are similar."""
    if not words:
        return list(newest_first[:limit])
    wanted = set(words)
    found = best_matches(newest_first, lambda one: len(wanted & set(words_of(one.text))), limit)
    return found or similar_notes(newest_first, words, limit)


def similar_notes(notes: Sequence[Note], words: Sequence[str], limit: int) -> list[Note]:
    """Return the notes that contain most of the words as parts of words, whatever their case and accents.

    A search that finds no whole word ends here. Chinese and Japanese have no space between words, so any two characters
    in sequence count there.
    """
    parts = dict.fromkeys(part for word in words for part in _parts(_folded(word)))
    wanted = list(parts)[:MOST_PARTS]

    def score(note: Note) -> int:
        text = _folded(note.text)
        return sum(part in text for part in wanted)

    return best_matches(notes, score, limit)


def best_matches(notes: Sequence[Note], score: Callable[[Note], int], limit: int) -> list[Note]:
    """Return the notes with the highest scores above 0, in the given order among equals."""
    scored = [(score(one), one) for one in notes]
    return [one for found, one in sorted(scored, key=lambda pair: -pair[0]) if found][:limit]


def _folded(text: str) -> str:
    """Return a text without accents and differences of case."""
    return "".join(one for one in normalize("NFKD", text.casefold()) if not combining(one))


def _parts(word: str) -> list[str]:
    """Return the parts of a word to look for; one or two letters are part of too many words."""
    if any(map(_is_unspaced, word)):
        return [word[at : at + 2] for at in range(len(word) - 1)] or [word]
    return [word] if len(word) >= SHORTEST_PART else []


def _is_unspaced(character: str) -> bool:
    """Whether a character is Chinese or Japanese, which put no space between words."""
    return "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff"


@dataclass(frozen=True, slots=True)
class SharedNotes:
    """The notes that the agents of one run can reach; `team` is its outermost team."""

    notes: Notes | None
    team: str


SHARED_NOTES: ContextVar[SharedNotes | None] = ContextVar("notes", default=None)
"""The notes of the run that the current task belongs to."""
