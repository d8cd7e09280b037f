"""How many tokens a prompt has at most: its bytes by class, times rates that are learnt from what models report.

Tokenizers differ, but all of them spend few tokens on words and many on digits, base64 and rare scripts. A bound is a
fit of recent requests times the largest excess over that fit; it is likely, not certain. Rates only size reservations,
and a reservation is recorded, so a replay never needs the rates again.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from math import ceil
from typing import Final, NamedTuple

from teamwright.values.call_limits import text_size
from teamwright.values.limits import BYTES_PER_MESSAGE

TOKENS_PER_MESSAGE: Final = 8
"""The frame of a message: marks of its beginning and end, its role, its channel; most formats need four."""
TOKENS_PER_REQUEST: Final = 16
"""What a format adds once: the beginning of the answer, and hidden lines before the first message."""

_DENSE: Final = re.compile(r"(?=[A-Za-z+/=_-]{0,23}[0-9])(?![0-9]{24})[A-Za-z0-9+/=_-]{24,}")
_ASIAN: Final = re.compile(r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]+")
_OTHER: Final = re.compile(r"[^\x00-\x7f]+")
_DIGITS: Final = b"0123456789"
_SYMBOLS: Final = b'!"#$%&()*+-/:;<=>?@[\\]^_`{|}~'


class TextProfile(NamedTuple):
    """The UTF-8 bytes of a text by class of characters, and its messages.

    `words` are ASCII letters, spaces and the punctuation of prose; `symbols` is other punctuation, as in code; `dense`
    are long runs of letters with digits among them, such as base64, hashes and ids; `asian` is Chinese, Japanese and
    Korean.
    """

    words: int = 0
    symbols: int = 0
    digits: int = 0
    dense: int = 0
    asian: int = 0
    other: int = 0
    messages: int = 0

    def plus(self, other: TextProfile) -> TextProfile:
        return TextProfile(*map(sum, zip(self, other, strict=True)))


def profile_of(text: str) -> TextProfile:
    """Classify the characters of a text, in time proportional to its length."""
    dense = asian = other = 0
    if len(text) >= 24:
        text, dense = _without(_DENSE, text)
    if not text.isascii():
        text, asian = _without(_ASIAN, text)
        text, other = _without(_OTHER, text)
    ascii_bytes = text.encode()
    size = len(ascii_bytes)
    digits = size - len(ascii_bytes.translate(None, _DIGITS))
    symbols = size - len(ascii_bytes.translate(None, _SYMBOLS))
    return TextProfile(size - digits - symbols, symbols, digits, dense, asian, other)


def _without(pattern: re.Pattern[str], text: str) -> tuple[str, int]:
    """Remove what matches, and return the rest of the text and the bytes that were removed."""
    rest = pattern.sub("", text)
    return rest, text_size(text) - text_size(rest) if len(rest) < len(text) else 0


def byte_bound(prompt_bytes: int, messages: int) -> int:
    """Return an upper bound of the tokens of a prompt for any tokenizer: one per byte, plus a frame per message."""
    return prompt_bytes + BYTES_PER_MESSAGE * messages


def framed(tokens: Iterable[int], messages: int) -> int:
    """Return an upper bound of the tokens of a prompt whose texts have been counted by the model's tokenizer."""
    return sum(tokens) + TOKENS_PER_MESSAGE * messages + TOKENS_PER_REQUEST


FEWEST_SAMPLES: Final = 3
"""Until as many requests have reported their usage, a prompt counts as its bytes."""
FEW: Final = 0.3
"""What is added to the margin for few samples, divided by their number."""
WINDOW: Final = 200
"""The number of recent requests that rates are fitted to."""
REFIT_EVERY: Final = 25
"""After how many requests rates are fitted again; until then, after each."""
LEAST_MARGIN: Final = 1.05
MARGIN: Final = 1.03
"""What is added to the largest excess over the fit."""
USUAL: Final = (1 / 4.5, 1 / 1.5, 1 / 3, 1 / 1.4, 1 / 3, 1 / 2, 4.0, 64.0)
"""Usual tokens per byte of each class, per message, and per request with its hidden lines: where the fit starts."""
CLASSES: Final = 6
"""How many of these rates are per byte; a token has at least one byte, so none of them exceeds 1."""
INERTIA: Final = 0.1
"""How many requests the usual rates count for in the fit."""
RANGE: Final = ((0.25, 4.0),) * CLASSES + ((0.0, 16.0),) * 2
"""The smallest and largest factor on each usual rate."""
ENOUGH: Final = 0.25
"""The least evidence of a class, in requests that consist of it alone; else its bytes count in full."""


class LearnedRates:
    """The rates of one model, fitted again now and then."""

    __slots__ = ("_count", "_margin", "_rates", "_samples", "_saved")

    def __init__(self) -> None:
        self._samples: deque[tuple[tuple[int, ...], int]] = deque(maxlen=WINDOW)
        self._count = self._saved = 0
        self._rates: list[float] | None = None
        self._margin = 1.0

    @classmethod
    def load(cls, text: str | None) -> LearnedRates:
        """Return the rates from what `dump` returned; those of a text that can't be read have no samples."""
        rates = cls()
        for sizes, tokens in _read_samples(text):
            rates._samples.append((sizes, tokens))
        rates._count = rates._saved = len(rates._samples)
        if rates._count >= FEWEST_SAMPLES:
            rates._fit()
        return rates

    def dump(self) -> str:
        """Return the samples as a text, which `load` reads."""
        self._saved = self._count
        return json.dumps([[*sizes, tokens] for sizes, tokens in self._samples], separators=(",", ":"))

    @property
    def is_settled(self) -> bool:
        """Whether there are so many samples that a few more change little."""
        return len(self._samples) >= 2 * REFIT_EVERY

    @property
    def is_worth_saving(self) -> bool:
        """Whether samples have been added that are not saved: any at first, later only several at once."""
        return self._count - self._saved >= (REFIT_EVERY if self.is_settled else 1)

    def learn(self, profile: TextProfile, tokens: int) -> None:
        """Add a request: what its prompt was made of, and the input tokens that its provider reported."""
        if tokens <= 0:
            return
        self._samples.append(((*profile, 1), tokens))
        self._count += 1
        if self._count >= FEWEST_SAMPLES and (self._count <= REFIT_EVERY or self._count % REFIT_EVERY == 0):
            self._fit()

    def bound(self, profile: TextProfile) -> int | None:
        """Return a likely upper bound of the tokens of a prompt; `None` while there are too few samples."""
        if self._rates is None:
            return None
        return ceil(self._margin * _product(self._rates, (*profile, 1)))

    def _fit(self) -> None:
        """Fit a factor on each usual rate by least squares of relative errors, and measure the largest excess."""
        rows = [
            [usual * size / tokens for usual, size in zip(USUAL, sizes, strict=True)] for sizes, tokens in self._samples
        ]
        evidence = [sum(column) for column in zip(*rows, strict=True)]
        size = len(USUAL)
        matrix = [[sum(row[i] * row[j] for row in rows) + INERTIA * (i == j) for j in range(size)] for i in range(size)]
        factors = _solve(matrix, [total + INERTIA for total in evidence])
        rates = [
            usual * min(max(factor, least), most)
            for usual, factor, (least, most) in zip(USUAL, factors, RANGE, strict=True)
        ]
        for index in range(CLASSES):  # the less was seen of a class, the closer it is to a token for each byte
            known = min(1.0, evidence[index] / ENOUGH)
            rates[index] = known * min(rates[index], 1.0) + (1 - known)
        excess = max(tokens / max(1.0, _product(rates, sizes)) for sizes, tokens in self._samples)
        few = 1 + FEW / len(self._samples)
        self._rates, self._margin = rates, few * max(LEAST_MARGIN, MARGIN * excess)


def _read_samples(text: str | None) -> list[tuple[tuple[int, ...], int]]:
    try:
        rows = json.loads(text or "[]")
        found = [tuple(map(int, row)) for row in islice(rows, WINDOW)]
    except (ValueError, TypeError):
        return []
    return [(row[:-1], row[-1]) for row in found if len(row) == len(USUAL) + 1 and min(row) >= 0 and row[-1]]


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(map(float.__mul__, one, map(float, other)))


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a system of linear equations whose matrix is symmetric and positive definite, by elimination."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(size):
        for below in range(at + 1, size):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [value - factor * pivot for value, pivot in zip(rows[below], rows[at], strict=True)]
    found = [0.0] * size
    for at in reversed(range(size)):
        known = sum(rows[at][later] * found[later] for later in range(at + 1, size))
        found[at] = (rows[at][size] - known) / rows[at][at]
    return found
