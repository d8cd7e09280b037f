"""Prompts are bounded by a tokenizer where one is known, else by learnt rates, else by bytes; each text once."""

from __future__ import annotations

from random import Random

import pytest
from msgspec import structs

from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.runtime.admission import prompt_meter
from teamwright.runtime.admission.prompt_meter import PromptMeter
from teamwright.values.limits.usage import Usage
from tests.kit.prompt_corpus import draw_text


async def call(attempt: Attempt) -> Returned:
    raise AssertionError("no call is made here")


def effect_of(name: str, *texts: str) -> Effect:
    size = sum(len(one.encode()) for one in texts)
    return Effect("model", name, "request", call, size, len(texts), model=name, texts=texts)


async def test_an_unknown_model_counts_bytes_until_its_rates_are_learnt() -> None:  # Z-10
    meter, random = PromptMeter(), Random(1)
    for _ in range(50):
        effect = effect_of("anthropic:claude-opus-5", draw_text("english", random, 2000))
        bound = await meter.bound(effect, strict=False)
        assert bound.tokens == effect.prompt_bytes + 16
        meter.learn(effect, bound, Usage(requests=1, input_tokens=effect.prompt_bytes // 4))
    effect = effect_of("anthropic:claude-opus-5", draw_text("english", random, 2000))
    used, learnt = effect.prompt_bytes // 4, await meter.bound(effect, strict=False)
    assert used <= learnt.tokens <= 2 * used
    other = structs.replace(effect, model="another model")
    assert (await meter.bound(other, strict=False)).tokens == effect.prompt_bytes + 16


async def test_a_known_tokenizer_counts_english_closely_from_the_first_request() -> None:  # Z-10
    pytest.importorskip("bpe_openai")
    effect = effect_of("openai:gpt-5-mini", draw_text("english", Random(2), 4000))
    bound = await PromptMeter().bound(effect, strict=False)
    assert bound.profile is None, "there is nothing to learn"
    assert bound.tokens < effect.prompt_bytes / 3


async def test_strict_limits_count_bytes_whatever_is_known() -> None:
    effect = structs.replace(effect_of("openai:gpt-5-mini", "word " * 100), prompt_tokens=7)
    assert await PromptMeter().bound(effect, strict=True) == (516, None)


async def test_a_caller_that_knows_the_tokens_of_a_prompt_is_believed() -> None:
    effect = Effect("model", "m", "r", call, 400, 1, prompt_tokens=100, media_tokens=30)
    assert await PromptMeter().bound(effect, strict=False) == (130, None)


async def test_a_growing_conversation_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def load(encoding: str) -> object:
        return lambda text: counted.append(text) or 1

    monkeypatch.setattr(prompt_meter, "load_tokenizer", load)
    meter, texts = PromptMeter(), [f"message {number}" for number in range(100)]
    for length in range(1, 101):
        await meter.bound(effect_of("openai:gpt-5", *texts[:length]), strict=False)
    assert counted == texts


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_meter, "MOST_KEPT", 8)
    meter = PromptMeter()
    for number in range(100):
        await meter.bound(effect_of("m", f"message {number}"), strict=False)
    assert len(meter._profiles._known) <= 8
