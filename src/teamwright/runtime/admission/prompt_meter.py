"""Bounds the tokens of prompts: by the model's tokenizer, by rates learnt from its usage, or by bytes.

One meter serves all runs of an engine, and keeps what it has counted, so that a growing conversation is counted once.
It decides nothing that a replay repeats: a reservation is recorded with its call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Generic, NamedTuple, TypeVar

import anyio
import anyio.lowlevel

from teamwright.agents.clients.tokenizer import CountTokens, encoding_of, load_tokenizer
from teamwright.agents.contract.effect import Effect
from teamwright.budget.learned_rates import LearnedRates
from teamwright.budget.token_estimate import TextProfile, byte_bound, framed, profile_of
from teamwright.values.limits.usage import Usage

T = TypeVar("T")

MOST_KEPT: Final = 16_384
"""The number of texts whose counts are kept."""
PAUSE_AFTER: Final = 100_000
"""Characters that are counted before other tasks get their turn."""


class PromptBound(NamedTuple):
    """An upper bound of the tokens of a prompt, and its profile if the model's rates are learnt."""

    tokens: int
    profile: TextProfile | None = None


class PromptMeter:
    """Bounds the tokens of prompts for the models of an engine."""

    def __init__(self) -> None:
        self._rates: defaultdict[str, LearnedRates] = defaultdict(LearnedRates)
        self._profiles = _Counts(profile_of)
        self._counts: dict[str, _Counts[int] | None] = {}

    async def bound(self, effect: Effect, *, strict: bool) -> PromptBound:
        """Bound the prompt of a model request. `strict` counts bytes, which no tokenizer exceeds."""
        most = byte_bound(effect.prompt_bytes, effect.messages)
        if effect.prompt_tokens is not None and not strict:
            most = effect.prompt_tokens
        if strict or not effect.texts:
            return PromptBound(most + effect.media_tokens)
        if (counts := await self._tokenizer(effect.name)) is not None:
            tokens = framed([await counts.of(text) for text in effect.texts], effect.messages)
            return PromptBound(min(most, tokens) + effect.media_tokens)
        profile = TextProfile(messages=effect.messages)
        for text in effect.texts:
            profile = profile.plus(await self._profiles.of(text))
        learnt = self._rates[effect.model].bound(profile)
        return PromptBound((most if learnt is None else min(most, learnt)) + effect.media_tokens, profile)

    def learn(self, effect: Effect, bound: PromptBound, usage: Usage) -> None:
        """Learn from the usage of a request without media, whose prompt was as bounded."""
        if bound.profile is not None and not effect.media_tokens:
            self._rates[effect.model].learn(bound.profile, usage.input_tokens)

    async def _tokenizer(self, model: str) -> _Counts[int] | None:
        """Return the counts of the model's tokenizer, which is loaded in a thread at its first use."""
        encoding = encoding_of(model)
        if encoding is None:
            return None
        if encoding not in self._counts:
            count: CountTokens | None = await anyio.to_thread.run_sync(load_tokenizer, encoding)
            self._counts.setdefault(encoding, None if count is None else _Counts(count))
        return self._counts[encoding]


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
