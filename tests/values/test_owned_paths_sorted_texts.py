"""Texts stay in order, and adding one does not take longer the more there are."""

from __future__ import annotations

from random import Random

from hypothesis import given, strategies as st

from teamwright.values.owned_paths import LONGEST_LIST, SortedTexts
from tests.growth import assert_linear

TEXTS = st.text("ab/", max_size=4)


def made_of(texts: list[str]) -> SortedTexts:
    made = SortedTexts()
    for text in texts:
        made.add(text)
    return made


@given(st.lists(TEXTS), TEXTS)
def test_the_texts_with_a_beginning_are_found_in_order(texts: list[str], start: str) -> None:
    assert list(made_of(texts).beginning_with(start)) == sorted(text for text in texts if text.startswith(start))


def test_more_texts_than_fit_into_one_list_are_found() -> None:
    texts = [f"{number % 7}/{number}" for number in range(5 * LONGEST_LIST)]
    Random(1).shuffle(texts)
    made = made_of(texts)
    for start in ("", "0/", "3/1", "6/", "7", "5/4999"):
        assert list(made.beginning_with(start)) == sorted(text for text in texts if text.startswith(start))


def test_equal_texts_that_fill_several_lists_are_all_found() -> None:
    made = made_of(["b"] * (3 * LONGEST_LIST) + ["a", "c"])
    assert len(list(made.beginning_with("b"))) == 3 * LONGEST_LIST


def test_adding_texts_takes_linear_time() -> None:  # S-01
    def shuffled(size: int) -> list[str]:
        texts = [f"src/m{number}/" for number in range(size)]
        Random(1).shuffle(texts)
        return texts

    assert_linear(made_of, prepare=shuffled, size=50_000)
