"""Names and keys: what is one, what is suggested instead, and that no two places share a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.errors import InvalidName
from teamwright.values.names import (
    check_name,
    escape_place,
    join_key,
    next_attempt,
    plain_strategy_name,
    suggest_name,
    with_attempt,
)


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "0", "x" * 64])
def test_a_name_is_returned_as_it_is(name: str) -> None:
    assert check_name("agent", name) == name


@pytest.mark.parametrize("name", ["", " a", "a b", "-a", ".a", "x" * 65, "größe", "a\n", "a/b", "a\x00"])
def test_anything_else_is_refused_with_a_suggestion(name: str) -> None:
    with pytest.raises(InvalidName) as raised:
        check_name("agent", name)
    assert repr(raised.value.suggestion) in str(raised.value)


@given(st.text())
def test_every_suggestion_is_a_name(text: str) -> None:
    assert check_name("agent", suggest_name(text))


@given(st.lists(st.text(st.characters()), min_size=1, max_size=3), st.lists(st.text(st.characters()), min_size=1))
def test_different_places_have_different_keys(one: list[str], other: list[str]) -> None:
    first, second = "/".join(one), "/".join(other)
    assert (escape_place(first) == escape_place(second)) == (first == second)


@given(st.text(st.characters()))
def test_a_place_never_looks_like_a_further_attempt(place: str) -> None:
    assert "#" not in escape_place(place)


def test_segments_are_escaped_and_the_path_stays_readable() -> None:
    assert escape_place("round-2/writer") == "round-2/writer"
    assert escape_place("why? 100%") == "why%3F%20100%25"
    assert escape_place("a//b") == "a/%/b"
    assert escape_place("half\ud800") == "half%ED%A0%80"


def test_a_key_is_a_path_and_the_first_attempt_has_no_mark() -> None:
    assert join_key("", "team") == "team"
    assert join_key("team", "step-1") == "team/step-1"
    assert join_key("team", "") == "team"
    assert with_attempt("step-1", 1) == "step-1"
    assert with_attempt("step-1", 2) == "step-1#2"


def test_strategies_may_be_spelt_with_either_dash() -> None:
    assert plain_strategy_name(" round-robin ") == plain_strategy_name("round_robin") == "round_robin"


def test_attempts_follow_each_other() -> None:
    assert next_attempt("t/step-1") == with_attempt("t/step-1", 2)
    assert next_attempt("t#2/step-1#2") == "t#2/step-1#3"
    assert next_attempt("t#2/step-1") == "t#2/step-1#2"
