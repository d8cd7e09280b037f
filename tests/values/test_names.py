"""Names: what is one, and what is suggested instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.errors import InvalidName
from teamwright.values.names import (
    check_name,
    plain_strategy_name,
    suggest_name,
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


def test_strategies_may_be_spelt_with_either_dash() -> None:
    assert plain_strategy_name(" round-robin ") == plain_strategy_name("round_robin") == "round_robin"
