"""Prompts are bounded by a tokenizer where one is known, else by learnt rates, else by bytes; each text once."""

from __future__ import annotations

from random import Random

import pytest
from msgspec import structs

from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.budget import prompt_meter
from teamwright.runtime.budget.prompt_meter import FEWEST_SAMPLES, PromptMeter
from teamwright.values.usage_and_prices import Usage
from tests.kit.prompt_corpus import draw_text


async def call(attempt: Attempt) -> Returned:
    raise AssertionError("no call is made here")


def effect_of(name: str, *texts: str) -> Effect:
    size = sum(len(one.encode()) for one in texts)
    return Effect("model", name, "request", call, size, len(texts), model=name, texts=texts)


async def test_an_unknown_model_counts_bytes_until_its_rates_are_learnt() -> None:  # Z-10
    meter, random = PromptMeter(), Random(1)
    for _ in range(FEWEST_SAMPLES):
        effect = effect_of("anthropic:claude-opus-5", draw_text("english", random, 2000))
        bound = await meter.bound(effect, strict=False)
        assert bound.tokens == effect.prompt_bytes + 16
        meter.learn(effect, bound, Usage(requests=1, input_tokens=effect.prompt_bytes // 4))
    effect = effect_of("anthropic:claude-opus-5", draw_text("english", random, 2000))
    used, learnt = effect.prompt_bytes // 4, await meter.bound(effect, strict=False)
    assert used <= learnt.tokens <= 2 * used
    assert learnt.by == "rates"
    other = structs.replace(effect, model="another model")
    assert (await meter.bound(other, strict=False)).tokens == effect.prompt_bytes + 16


async def test_who_learns_is_told_how_the_same_prompt_counts_from_then_on() -> None:  # Z-10
    meter, effect = PromptMeter(), effect_of("anthropic:claude-opus-5", draw_text("english", Random(1), 2000))
    bound, used = await meter.bound(effect, strict=False), effect.prompt_bytes // 4
    counted = [meter.learn(effect, bound, Usage(requests=1, input_tokens=used)) for _ in range(FEWEST_SAMPLES)]
    assert counted[:-1] == [bound.tokens] * (FEWEST_SAMPLES - 1)
    assert used <= counted[-1] == (await meter.bound(effect, strict=False)).tokens <= 2 * used


async def test_a_known_tokenizer_counts_english_closely_from_the_first_request() -> None:  # Z-10
    pytest.importorskip("bpe_openai")
    effect = effect_of("openai:gpt-5-mini", draw_text("english", Random(2), 4000))
    bound = await PromptMeter().bound(effect, strict=False)
    assert bound.profile is None, "there is nothing to learn"
    assert bound.tokens < effect.prompt_bytes / 3


async def test_strict_limits_count_bytes_whatever_is_known() -> None:
    effect = structs.replace(effect_of("openai:gpt-5-mini", "word " * 100), prompt_tokens=7)
    assert (await PromptMeter().bound(effect, strict=True)).tokens == 516


async def test_a_caller_that_knows_the_tokens_of_a_prompt_is_believed() -> None:
    effect = Effect("model", "m", "r", call, 400, 1, prompt_tokens=100, media_tokens=30)
    assert (await PromptMeter().bound(effect, strict=False)).tokens == 130


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


async def test_another_process_knows_what_one_run_has_taught() -> None:  # Z-10
    """Both what limits made it count, and what runs without limits have shown."""
    for limited in (True, False):
        journal, random = MemoryJournal(), Random(1)
        first = PromptMeter(journal)
        for _ in range(FEWEST_SAMPLES):
            effect = effect_of("house", draw_text("english", random, 2000))
            usage = Usage(requests=1, input_tokens=effect.prompt_bytes // 4)
            if limited:
                first.learn(effect, await first.bound(effect, strict=False), usage)
            else:
                first.observe(effect, usage)
        await first.save()
        effect = effect_of("house", draw_text("english", random, 2000))
        used, learnt = effect.prompt_bytes // 4, await PromptMeter(journal).bound(effect, strict=False)
        assert used <= learnt.tokens <= 1.5 * used
        assert (await PromptMeter(MemoryJournal()).bound(effect, strict=False)).by == "bytes"


async def test_a_model_may_declare_how_its_prompts_are_counted() -> None:  # Z-10
    pytest.importorskip("bpe_openai")
    plain = effect_of("house", "word " * 400)
    counted = await PromptMeter().bound(structs.replace(plain, tokenizer="o200k_base"), strict=False)
    divided = await PromptMeter().bound(structs.replace(plain, tokenizer=4.0), strict=False)
    assert (counted.tokens, counted.by) == (401 + 8 + 16, "tokenizer")
    assert (divided.tokens, divided.by) == (500 + 8 + 16, "bytes_per_token")
    assert (await PromptMeter().bound(structs.replace(plain, tokenizer=4.0), strict=True)).tokens == 2016


async def test_samples_that_can_not_be_read_are_as_none() -> None:
    journal = MemoryJournal()
    for text in ("", "{", "[[1]]", '[["x"]]', "[[-1,0,0,0,0,0,0,1,5]]"):
        await journal.token_rates.save("house", text)
        assert (await PromptMeter(journal).bound(effect_of("house", "word"), strict=False)).by == "bytes"
