"""Bounds the tokens of prompts: by the model's tokenizer, by rates learnt from its usage, or by bytes.

One meter serves all runs of an engine, and keeps what it has counted, so that a growing conversation is counted once.
Rates are tokens per byte of each class: tokenizers differ, but all spend few tokens on words and many on digits,
base64 and rare scripts. A bound is a fit of recent requests times the largest excess over it: likely, not certain. It
only sizes reservations, which are recorded, so a replay never needs the rates again.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from math import ceil
from typing import Final, Generic, NamedTuple, TypeVar

import anyio
import anyio.lowlevel

from teamwright.agents.effect import Effect
from teamwright.agents.tokenizers import CountTokens, encoding_of, is_installed, load_tokenizer
from teamwright.errors import JournalError
from teamwright.journal.protocol import Journal
from teamwright.values.call_limits import text_size
from teamwright.values.events.budget import CountedBy
from teamwright.values.limits import BYTES_PER_MESSAGE
from teamwright.values.specs.models import TokenizerName
from teamwright.values.usage_and_prices import Usage

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


T = TypeVar("T")

MOST_KEPT: Final = 16_384
"""The number of texts whose counts are kept."""
PAUSE_AFTER: Final = 100_000
"""Characters that are counted before other tasks get their turn."""
MOST_UNREAD: Final = 32
"""The number of requests of runs without limits that are kept to learn from when a run has ended."""
LONGEST_UNREAD: Final = 50_000
"""The bytes of a prompt up to which it is kept for that."""


class PromptBound(NamedTuple):
    """An upper bound of the tokens of a prompt, how it was found, and its profile if the model's rates are learnt."""

    tokens: int
    profile: TextProfile | None = None
    by: CountedBy | None = None


class PromptMeter:
    """Bounds the tokens of prompts for the models of an engine."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._store = None if journal is None else journal.token_rates
        self._rates: dict[str, LearnedRates] = {}
        self._profiles = _Counts(profile_of)
        self._counts: dict[TokenizerName, _Counts[int] | None] = {}
        self._unread: deque[_Unread] = deque(maxlen=MOST_UNREAD)

    async def bound(self, effect: Effect, *, strict: bool) -> PromptBound:
        """Bound the prompt of a model request. `strict` counts bytes, which no tokenizer exceeds."""
        most = byte_bound(effect.prompt_bytes, effect.messages)
        if effect.prompt_tokens is not None and not strict:
            most = effect.prompt_tokens
        if strict or not effect.texts:
            return PromptBound(most + effect.media_tokens)
        if isinstance(ratio := effect.tokenizer, float | int):
            tokens = framed([ceil(effect.prompt_bytes / ratio)], effect.messages)
            return PromptBound(min(most, tokens) + effect.media_tokens, by="bytes_per_token")
        if (counts := await self._tokenizer(effect)) is not None:
            tokens = framed([await counts.of(text) for text in effect.texts], effect.messages)
            return PromptBound(min(most, tokens) + effect.media_tokens, by="tokenizer")
        profile, rates = await self._profile(effect.texts, effect.messages), await self._rates_of(effect.model)
        learnt = rates.bound(profile)
        tokens = most if learnt is None else min(most, learnt)
        return PromptBound(tokens + effect.media_tokens, profile, "bytes" if learnt is None else "rates")

    def learn(self, effect: Effect, bound: PromptBound, usage: Usage) -> int:
        """Learn from the usage of a request without media, whose prompt was so bounded; returns its new bound."""
        if bound.profile is None or effect.media_tokens or effect.model not in self._rates:
            return bound.tokens
        rates = self._rates[effect.model]
        rates.learn(bound.profile, usage.input_tokens)
        learnt = rates.bound(bound.profile)
        return bound.tokens if learnt is None else min(bound.tokens, learnt)

    def observe(self, effect: Effect, usage: Usage) -> None:
        """Keep a request that no limit applied to; what can be learnt from it is learnt when a run has ended."""
        if not effect.texts or effect.media_tokens or not usage.input_tokens or effect.prompt_bytes > LONGEST_UNREAD:
            return
        if effect.prompt_tokens is None and not _has_tokenizer(effect):
            self._unread.append(_Unread(effect.model, effect.texts, effect.messages, usage.input_tokens))

    async def save(self) -> None:
        """Learn from what was observed, and save what is new, so that other processes know it."""
        unread, self._unread = self._unread, deque(maxlen=MOST_UNREAD)
        for model, texts, messages, tokens in unread:
            rates = await self._rates_of(model)
            if not rates.is_settled:
                rates.learn(await self._profile(texts, messages), tokens)
        for model, rates in list(self._rates.items()):
            if self._store is not None and rates.is_worth_saving:
                with suppress(JournalError):  # nothing depends on it
                    await self._store.save(model, rates.dump())

    async def _profile(self, texts: Sequence[str], messages: int) -> TextProfile:
        profile = TextProfile(messages=messages)
        for text in texts:
            profile = profile.plus(await self._profiles.of(text))
        return profile

    async def _rates_of(self, model: str) -> LearnedRates:
        """Return the rates of a model, which are read from the store at their first use."""
        if model not in self._rates:
            saved: str | None = None
            with suppress(JournalError):
                saved = None if self._store is None else await self._store.load(model)
            self._rates.setdefault(model, LearnedRates.load(saved))
        return self._rates[model]

    async def _tokenizer(self, effect: Effect) -> _Counts[int] | None:
        """Return the counts of the model's tokenizer, which is loaded in a thread at its first use."""
        encoding = _encoding(effect)
        if encoding is None:
            return None
        if encoding not in self._counts:
            count: CountTokens | None = await anyio.to_thread.run_sync(load_tokenizer, encoding)
            self._counts.setdefault(encoding, None if count is None else _Counts(count))
        return self._counts[encoding]


def _encoding(effect: Effect) -> TokenizerName | None:
    given = effect.tokenizer
    return given if isinstance(given, str) else encoding_of(effect.name)


def _has_tokenizer(effect: Effect) -> bool:
    return isinstance(effect.tokenizer, float | int) or (_encoding(effect) is not None and is_installed())


class _Unread(NamedTuple):
    """A request that nothing was learnt from yet."""

    model: str
    texts: Sequence[str]
    messages: int
    tokens: int


class _Counts(Generic[T]):
    """The results of a function of texts, by a hash of the text."""

    def __init__(self, count: Callable[[str], T]) -> None:
        self._count = count
        self._known: dict[bytes, T] = {}
        self._since_pause = 0

    async def of(self, text: str) -> T:
        """Return the result for a text, computed at most once while it is kept."""
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if (known := self._known.get(key)) is not None:
            return known
        self._since_pause += len(text)
        if self._since_pause > PAUSE_AFTER:
            self._since_pause = 0
            await anyio.lowlevel.checkpoint()
        if len(self._known) >= MOST_KEPT:
            for oldest in list(self._known)[: MOST_KEPT // 2]:
                del self._known[oldest]
        self._known[key] = result = self._count(text)
        return result
