from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright.lab.experiments.grades import has_words, misfit


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("The answer is 42.", "42", True),
        ("The answer is 142.", "42", False),
        ("It is New\n  york!", "new York", True),
        ("a+b = c", "a+b", True),
        ("", "x", False),
    ],
)
def test_expected_words_are_whole_words(text: str, words: str, found: bool) -> None:
    assert has_words(text, words) == found


@pytest.mark.parametrize(
    ("expected", "data", "why"),
    [
        ({"a": 1}, {"a": 1.0, "b": 2}, ""),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "data.a.b[1] is 3, and 2 is expected"),
        ({"a": 1}, {"b": 1}, "data.a is missing"),
        ({"a": 1}, None, "data is None and no object"),
        ({"a": True}, {"a": 1}, "data.a is 1, and True is expected"),
        ([1], [1, 2], "data is [1, 2], and [1] is expected"),
    ],
)
def test_expected_data_may_be_among_more(expected: JsonValue, data: JsonValue, why: str) -> None:
    assert misfit(expected, data) == why
