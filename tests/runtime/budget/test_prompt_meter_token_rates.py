"""The classes of characters of a text, and bounds that follow from its size."""

from __future__ import annotations

from hypothesis import given, strategies as st

from teamwright.runtime.budget.prompt_meter import TextProfile, byte_bound, framed, profile_of
from tests.growth import assert_linear


def test_each_class_of_characters_counts_its_bytes() -> None:
    assert profile_of("a word, and.") == TextProfile(words=12)
    assert profile_of("x[1] = {2};") == TextProfile(words=3, symbols=6, digits=2)
    assert profile_of("A9" * 20) == TextProfile(dense=40)
    assert profile_of("1234567890" * 5) == TextProfile(digits=50)
    assert profile_of("a_long_name_in_code_that_is_no_id") == TextProfile(words=25, symbols=8)
    assert profile_of("团队") == TextProfile(asian=6)
    assert profile_of("😀 да") == TextProfile(words=1, other=8)


@given(st.text())
def test_the_classes_cover_every_byte_once(text: str) -> None:
    assert sum(profile_of(text)) == len(text.encode("utf-8", "surrogatepass"))


def test_profiles_add_up() -> None:
    assert profile_of("a 1").plus(profile_of("b")) == TextProfile(words=3, digits=1)


def test_a_prompt_counts_its_bytes_and_sixteen_per_message() -> None:
    assert byte_bound(100, 3) == 148


def test_counted_texts_get_a_frame_for_each_message_and_one_for_the_request() -> None:
    assert framed([100, 20], 2) == 120 + 2 * 8 + 16


def test_long_texts_are_classified_in_linear_time() -> None:
    assert_linear(profile_of, prepare=lambda size: "A9" * 11 * size + " 团" * size)
