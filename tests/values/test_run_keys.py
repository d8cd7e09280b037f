"""Keys: no two places share one, and every part of one can be found again."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.values.run_keys import (
    escape_place,
    in_scope,
    is_call,
    is_inside,
    is_request,
    is_tool_call,
    join_key,
    key_and_parents,
    key_below_root,
    key_depth,
    key_segments,
    nearest_key,
    next_attempt,
    parent_key,
    parent_keys,
    relative_key,
    repeat_key,
    request_place,
    root_key,
    split_attempt,
    tool_place,
    with_attempt,
    without_attempts,
)

SEGMENT = st.text(st.sampled_from("ab-1"), min_size=1, max_size=3)
KEY = st.lists(st.builds(with_attempt, SEGMENT, st.integers(1, 3)), min_size=1, max_size=4).map("/".join)


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


def test_attempts_follow_each_other() -> None:
    assert next_attempt("t/step-1") == with_attempt("t/step-1", 2)
    assert next_attempt("t#2/step-1#2") == "t#2/step-1#3"
    assert next_attempt("t#2/step-1") == "t#2/step-1#2"


@given(KEY)
def test_the_parents_of_a_key_lead_up_to_the_run(key: str) -> None:
    parents = list(parent_keys(key))
    assert parents[0] == parent_key(key)
    assert parents[-1] == ""
    assert len(parents) == len(key_segments(key)) == key_depth(key) + 1
    assert list(key_and_parents(key)) == [key, *parents]
    assert all(is_inside(key, parent) and in_scope(key, parent) for parent in parents)


def test_the_run_has_no_parents() -> None:
    assert list(parent_keys("")) == []
    assert list(key_and_parents("")) == [""]


@given(KEY, KEY)
def test_a_scope_contains_itself_and_what_has_it_among_its_parents(key: str, scope: str) -> None:
    assert is_inside(key, scope) == (scope in parent_keys(key))
    assert in_scope(key, scope) == (scope in key_and_parents(key))


def test_a_name_that_begins_like_another_is_not_inside_it() -> None:
    assert not in_scope("team-2/a", "team")
    assert not is_inside("team", "team")
    assert in_scope("team", "team")


@pytest.mark.parametrize(("known", "found"), [({"t"}, "t"), ({"t", "t/a"}, "t/a"), ({"t/a/b"}, "t/a/b"), ({"x"}, "")])
def test_the_nearest_key_is_the_innermost_that_is_known(known: set[str], found: str) -> None:
    assert nearest_key("t/a/b", known) == found


@given(KEY, KEY)
def test_a_key_is_its_scope_and_what_it_is_within_the_scope(scope: str, place: str) -> None:
    key = join_key(scope, place)
    assert relative_key(key, scope) == place
    assert relative_key(key, "") == key
    assert join_key(root_key(key), key_below_root(key)) == key


def test_a_key_outside_a_scope_stays_as_it_is() -> None:
    assert relative_key("team-2/a", "team") == "team-2/a"


@given(SEGMENT, st.integers(1, 99))
def test_the_attempt_of_a_key_is_found_again(place: str, attempt: int) -> None:
    assert split_attempt(with_attempt(place, attempt)) == (place, attempt)
    assert split_attempt(join_key(with_attempt("t", attempt), place)) == (
        join_key(with_attempt("t", attempt), place),
        1,
    )


def test_a_place_is_the_same_in_all_its_attempts() -> None:
    assert without_attempts("t#2/step-1#12/call") == "t/step-1/call"


def test_the_places_of_a_turn_are_known_by_what_they_are() -> None:
    places = (request_place(2), tool_place("call_7"))
    assert [(is_request(place), is_tool_call(place)) for place in places] == [(True, False), (False, True)]


def test_a_call_and_its_repeats_are_one_call() -> None:
    call = join_key("t/a", tool_place("1"))
    assert is_call(call, call)
    assert is_call(repeat_key(call, 2), call)
    assert not any(is_call(key, call) for key in (f"{call}1", join_key(call, "ask-1"), repeat_key(f"{call}1", 1)))
