"""Bounds the tokens of prompts: by the model's tokenizer, by rates learnt from its usage, or by bytes.

One meter serves all runs of an engine, and keeps what it has counted, so that a growing conversation is counted once.
What it learns is kept beside the journal, so that the next process knows it. It decides nothing that a replay repeats:
a reservation is recorded with its call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from math import ceil
from typing import Final, Generic, NamedTuple, TypeVar

import anyio
import anyio.lowlevel

from teamwright.agents.contract.effect import Effect
from teamwright.agents.prices_and_tokenizers import CountTokens, encoding_of, is_installed, load_tokenizer
from teamwright.errors import JournalError
from teamwright.journal.protocol import Journal
from teamwright.runtime.budget.token_rates import LearnedRates, TextProfile, byte_bound, framed, profile_of
from teamwright.values.events.budget import CountedBy
from teamwright.values.limits import Usage
from teamwright.values.specs.models import TokenizerName

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
