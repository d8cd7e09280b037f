"""Rates learnt from reported usage bound later prompts of the same model closely."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from teamwright.runtime.budget.prompt_meter import FEWEST_SAMPLES, LearnedRates, TextProfile, profile_of
from tests.kit.prompt_corpus import draw_text

Count = Callable[[str], int]


def profile(text: str) -> TextProfile:
    return profile_of(text)._replace(messages=2)


def learnt_from(count: Count, kinds: tuple[str, ...], samples: int, hidden: int = 0) -> LearnedRates:
    random, rates = Random(1), LearnedRates()
    for number in range(samples):
        text = draw_text(kinds[number % len(kinds)], random, random.randrange(200, 4000))
        rates.learn(profile(text), count(text) + 11 + hidden)
    return rates


def words_and_bytes(text: str) -> int:
    """A plain tokenizer: a token for each five characters of ASCII, and one for each byte of anything else."""
    return sum(1 if one.isascii() else 5 * len(one.encode()) for one in text) // 5


def test_nothing_is_known_before_a_few_requests_have_reported_their_usage() -> None:
    assert learnt_from(words_and_bytes, ("english",), FEWEST_SAMPLES - 1).bound(TextProfile(words=100)) is None
    assert learnt_from(words_and_bytes, ("english",), FEWEST_SAMPLES).bound(TextProfile(words=100)) is not None


@pytest.mark.parametrize("kind", ["english", "code", "chinese", "mixed"])
@pytest.mark.parametrize("hidden", [0, 300])
def test_a_bound_is_at_least_what_is_used_and_less_than_twice_that(kind: str, hidden: int) -> None:
    kinds = ("english", "code", "chinese", "mixed")
    rates, random = learnt_from(words_and_bytes, kinds, 200, hidden), Random(7)
    for _ in range(100):
        text = draw_text(kind, random, random.randrange(500, 5000))
        used, bound = words_and_bytes(text) + 11 + hidden, rates.bound(profile(text))
        assert bound is not None
        assert used <= bound <= 2 * used


def test_bytes_of_a_class_that_was_never_seen_count_in_full() -> None:
    rates = learnt_from(words_and_bytes, ("english",), 100)
    bound = rates.bound(TextProfile(asian=3000))
    assert bound is not None
    assert bound >= 3000


def test_a_request_without_usage_teaches_nothing() -> None:
    rates = LearnedRates()
    for _ in range(FEWEST_SAMPLES):
        rates.learn(TextProfile(words=100), 0)
    assert rates.bound(TextProfile(words=100)) is None


def test_recent_requests_count_more_than_earlier_ones() -> None:
    rates = learnt_from(words_and_bytes, ("english",), 100)
    before = rates.bound(TextProfile(words=10_000, messages=2))
    for number in range(300):
        rates.learn(TextProfile(words=1000 + number, messages=2), 1000 + number)
    after = rates.bound(TextProfile(words=10_000, messages=2))
    assert before is not None
    assert after is not None
    assert before < 3500
    assert after > 8000
