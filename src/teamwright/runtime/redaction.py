"""Masks known secrets in everything before it is recorded, delivered or shown, and replaces what no journal can hold.

The work is linear in the text, whatever the text and the secrets look like. Texts that only look like a secret are left
alone here; they are masked on output (`values.text.secrets`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable
from functools import lru_cache
from pathlib import Path

from pydantic import JsonValue

from teamwright.values.events.event import Fact
from teamwright.values.text.secrets import (
    HIDDEN,
    SHORTEST,
    Span,
    has_password,
    is_maskable,
    known_forms,
    masked,
    merged,
)

CREDENTIALS = re.compile(r"(?:(?:API|ACCESS|SECRET|PRIVATE)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|WEBHOOK)$")
"""Names of environment variables with credentials, which programs and providers read without any manifest."""

NO_TEXT = frozenset({bool, int, float, type(None)})
"""The types of JSON values without any text."""


class Redactor:
    """Masks the secret values of one run."""

    __slots__ = ("_needles", "values")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {form for value in (*secrets, *environment_secrets()) for form in known_forms(value)}
        self.values = sorted(known)
        """Every form of every secret."""
        self._needles: dict[str, Needle] = {}

    def fact(self, fact: Fact) -> Fact:
        """Return the fact with secrets masked in its texts."""
        changed: dict[str, str] = {}
        for name in fact.__struct_fields__:
            text: object = getattr(fact, name)
            if isinstance(text, str) and (clean := self.text(text)) is not text:
                changed[name] = clean
        return fact.changed(**changed) if changed else fact

    def text(self, text: str) -> str:
        if not text.isascii():
            text = replace_lone_surrogates(text)
        for value in self.values:
            if value in text:
                return masked(text, self.spans(text))
        return text

    def content(self, content: str | bytes) -> str | bytes:
        """Return the content of an artifact, text or binary, with secrets masked."""
        if isinstance(content, str):
            return self.text(content)
        text = content.decode("latin-1")  # one character for each byte
        found: list[Span] = []
        for value in self.values:
            if (written := value.encode("utf-8", "surrogatepass").decode("latin-1")) in text:
                found += self.needle(written).spans(text)
        return masked(text, merged(found)).encode("latin-1") if found else content

    def value(self, value: JsonValue, clean: Container[str] = ()) -> JsonValue:
        """Return the JSON value with secrets masked in all its strings, except those known to be clean."""
        # Called for every result: types are compared by identity, which takes half the time of a `match`.
        if type(value) in NO_TEXT:
            return value
        text = self.text
        if isinstance(value, str):
            return value if value in clean else text(value)
        if isinstance(value, dict):
            return {
                text(key): item if type(item) in NO_TEXT else self.value(item, clean) for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):  # pyright: ignore[reportUnnecessaryIsInstance] - lists when read
            return [self.value(item, clean) for item in value]
        return value

    def spans(self, text: str) -> list[Span]:
        """Return where secrets occur, in order; overlapping occurrences are merged."""
        found: list[Span] = []
        for value in self.values:
            if value in text:
                found += self.needle(value).spans(text)
        return merged(found) if found else found

    def needle(self, value: str) -> Needle:
        """Return the search index of a secret, which is built at its first use."""
        if value not in self._needles:
            self._needles[value] = Needle(value)
        return self._needles[value]


class Needle:
    """One text, prepared so that all its occurrences can be found, also overlapping ones."""

    __slots__ = ("_borders", "_period", "value")

    def __init__(self, value: str) -> None:
        self.value, self._borders = value, _borders(value)
        self._period = len(value) - self._borders[-1]

    def spans(self, text: str) -> list[Span]:
        """Return where it occurs. Two searches start at least half its length apart, so that the total is linear."""
        value, period, found = self.value, self._period, list[Span]()
        again = value[-period:]
        start = text.find(value)
        while start >= 0:
            end = start + len(value)
            while period < len(value) and text.startswith(again, end):  # one more occurrence, which overlaps
                end += period
            found.append((start, end))
            start = text.find(value, end - period + 1)  # no other occurrence begins before
        return found

    def advance(self, state: int, piece: str) -> int:
        """Return the length of the longest prefix of it that the text ends with, after one more piece.

        `state` is that length before the piece (Knuth, Morris, Pratt).
        """
        value, borders = self.value, self._borders
        if len(piece) >= len(value):
            state, piece = 0, piece[1 - len(value) :]
        for char in piece:
            while state and (state == len(value) or value[state] != char):
                state = borders[state - 1]
            if value[state] == char:
                state += 1
        return borders[-1] if state == len(value) else state


def _borders(value: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(value)
    length = 0
    for index in range(1, len(value)):
        while length and value[index] != value[length]:
            length = borders[length - 1]
        if value[index] == value[length]:
            length += 1
        borders[index] = length
    return borders


class RedactedStream:
    """Redacts a text that arrives in pieces. What may be the beginning of a secret is held back until that is known."""

    __slots__ = ("_by_first", "_covered", "_held", "_partial", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._covered = 0
        """How many characters of the held text are masked and have been emitted."""
        self._partial: dict[str, int] = {}
        self._by_first: dict[str, list[str]] = {}
        for value in redactor.values:
            self._by_first.setdefault(value[0], []).append(value)

    def feed(self, piece: str) -> tuple[str, int]:
        """Add a piece; returns what can be shown now, redacted, and the length of the text it stands for."""
        if not piece.isascii():
            piece = replace_lone_surrogates(piece)
        if not self._by_first or not (self._held or any(first in piece for first in self._by_first)):
            return piece, len(piece)
        text = self._held + piece
        keep = len(text) - self._longest_partial(piece)
        spans = self._redactor.spans(text) if len(text) >= SHORTEST else []
        return self._emit(text, keep, spans)

    def finish(self) -> str:
        """Return what was held back, when nothing more arrives."""
        text, self._partial = self._held, {}
        return self._emit(text, len(text), self._redactor.spans(text))[0]

    def _longest_partial(self, piece: str) -> int:
        """Return how much of the end of the text may be the beginning of a secret."""
        candidates = set(self._partial)
        for first, values in self._by_first.items():
            if first in piece:
                candidates.update(values)
        states = {one: self._redactor.needle(one).advance(self._partial.get(one, 0), piece) for one in candidates}
        self._partial = {value: state for value, state in states.items() if state}
        return max(self._partial.values(), default=0)

    def _emit(self, text: str, keep: int, spans: list[Span]) -> tuple[str, int]:
        """Return the text up to `keep`, and the mask of a secret that extends beyond it; the rest is held back."""
        parts: list[str] = []
        at = self._covered
        for start, end in spans:
            if start > keep:
                break
            if start >= at:
                parts += (text[at:start], HIDDEN)
            at = max(at, end)
        if at < keep:
            parts.append(text[at:keep])
            at = keep
        length = at - self._covered
        self._held, self._covered = text[keep:], at - keep
        return "".join(parts), length


def replace_lone_surrogates(text: str) -> str:
    """Return the text as UTF-8 can encode it: lone surrogates, which some programs emit, are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def environment_secrets() -> list[str]:
    """Return the values of environment variables that hold a credential, by their names or as addresses with a
    password; no file paths, and no address of a journal or server without one.
    """
    found = (value for name, value in os.environ.items() if _is_credential(name, value))
    return [value for value in found if is_maskable(value) and not _is_file(value)]


@lru_cache(maxsize=1024)  # every run looks at every variable
def _is_credential(name: str, value: str) -> bool:
    return CREDENTIALS.search(name.upper()) is not None or has_password(value)


def _is_file(value: str) -> bool:
    try:
        return value.startswith(("/", "~", ".")) and Path(value).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
