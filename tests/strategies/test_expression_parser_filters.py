"""The filters and tests of conditions and templates."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.strategies.expression_parser import FILTERS, LARGEST, TESTS, describe, format_value, work_of
from tests.growth import count_calls


@pytest.mark.parametrize(
    ("name", "value", "given", "comes_to"),
    [
        ("abs", -2, [], 2),
        ("default", None, ["x"], "x"),
        ("default", False, ["x"], False),
        ("first", [1, 2], [], 1),
        ("first", "ab", [], "a"),
        ("last", [1, 2], [], 2),
        ("float", "2.5", [], 2.5),
        ("float", 2, [], 2.0),
        ("int", " 7 ", [], 7),
        ("int", "7.9", [], 7),
        ("join", ["a", 1, True], [", "], "a, 1, true"),
        ("join", [{"n": "a"}, {"n": "b"}], ["", "n"], "ab"),
        ("length", {"a": 1}, [], 1),
        ("lower", "ÄB", [], "äb"),
        ("max", [1, 2.5], [], 2.5),
        ("min", [1, 2.5], [], 1),
        ("round", 2.567, [1], 2.6),
        ("round", 2.5, [], 2.0),
        ("sum", [1, 2], [], 3),
        ("tojson", {"a": [None, "é"]}, [], '{"a":[null,"é"]}'),
        ("trim", " a ", [], "a"),
        ("truncate", "abcdef", [4], "abc…"),
        ("truncate", "abcd", [4], "abcd"),
        ("upper", "a", [], "A"),
    ],
)
def test_a_filter_makes_one_value_of_another(
    name: str, value: JsonValue, given: list[JsonValue], comes_to: JsonValue
) -> None:
    found = FILTERS[name].function(value, given)
    assert found == comes_to
    assert type(found) is type(comes_to)


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("abs", True, []),
        ("abs", "1", []),
        ("first", [], []),
        ("last", "", []),
        ("int", "seven", []),
        ("int", "", []),
        ("int", None, []),
        ("int", "9" * 61, []),
        ("float", "nan", []),
        ("float", "1e400", []),
        ("join", "ab", []),
        ("join", [None], []),
        ("length", 1, []),
        ("lower", 1, []),
        ("max", [], []),
        ("max", ["a"], []),
        ("round", 1.5, [-1]),
        ("round", 1.5, [1.5]),
        ("sum", [LARGEST, LARGEST], []),
        ("tojson", "\ud800", []),
        ("truncate", "abc", [0]),
    ],
)
def test_a_value_that_does_not_fit_is_never_taken_for_another(
    name: str, value: JsonValue, given: list[JsonValue]
) -> None:
    with pytest.raises(ExpressionFailed):
        FILTERS[name].function(value, given)


@pytest.mark.parametrize(
    ("name", "yes", "no"),
    [
        ("boolean", False, 0),
        ("list", [], {}),
        ("mapping", {}, []),
        ("none", None, ""),
        ("number", 0, True),
        ("string", "", None),
    ],
)
def test_a_test_distinguishes_kinds(name: str, yes: JsonValue, no: JsonValue) -> None:
    assert TESTS[name].function(yes, []) is True
    assert TESTS[name].function(no, []) is False


def test_values_are_described_in_few_words() -> None:
    values: list[JsonValue] = [None, True, "a" * 99, 7, 0.1 + 0.2, 10**40, [], {}]
    assert [describe(value) for value in values] == [
        "null",
        "true",
        f"the text '{'a' * 59}…'",
        "the number 7",
        "the number 0.3",
        "a huge number",
        "a list",
        "an object",
    ]


def test_texts_are_printed_as_they_are_and_the_rest_as_json() -> None:
    values: list[JsonValue] = ["a 'b'", True, 1.5, ["x"]]
    assert [format_value(value) for value in values] == ["a 'b'", "true", "1.5", '["x"]']


def test_the_weight_of_a_value_counts_all_that_is_in_it() -> None:
    assert work_of("abc", 1_000) == 3
    assert work_of(["abc", {"k": "defg"}], 1_000) >= 7
    assert work_of(7, 1_000) == 1


def test_the_weight_of_a_value_is_counted_no_further_than_it_matters() -> None:  # S-01
    doubled: JsonValue = ["x"]
    for _ in range(200):
        doubled = [doubled, doubled]
    assert count_calls(lambda most: work_of(doubled, most), 1_000) < 500
    assert work_of(doubled, 1_000) > 1_000
