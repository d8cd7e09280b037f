"""Conditions: true or false or an error that says why, whatever they are made of."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.strategies.expressions import Condition

NAMES: dict[str, JsonValue] = {
    "text": "Looks good to me. LGTM",
    "data": {
        "score": 8,
        "approved": True,
        "items": ["a", "b"],
        "count": 2,
        "note": None,
        "spelt": "8",
        "deep": {"list": [1, [2]]},
        "_id": 7,
    },
    "state": {"turn": 2},
}


@pytest.mark.parametrize(
    "text",
    [
        "data.approved",
        "not false",
        "data.score >= 8 and 'LGTM' in text",
        "data.score < 3 or data.approved",
        "1 < data.score <= 8",
        "data.score == 8.0",
        "data.score + 2 * 3 - 4 / 2 == 12",
        "-data.score < 0 and +data.score > 0",
        "data.score % 3 == 2 and data.score // 3 == 2",
        "data.items | length == 2",
        "data.items == ['a', 'b']",
        "'a' in data.items and 'z' not in data.items",
        "'score' in data",
        "data.items[0] == 'a' and data.items[-1] == 'b'",
        "data['_id'] == 7",
        "data.deep.list[1][0] == 2",
        "data == data",
        "{'a': data.score} == {'a': 8}",
        "data.items and data.approved if false else true",
        "('yes' if data.approved else 'no') == 'yes'",
        "text[:5] == 'Looks' and text[-4:] == 'LGTM'",
        "text | lower is startingwith 'looks'",
        "text is endingwith('LGTM')",
        "data.nothing is not defined and data.note is defined",
        "data.note is none and data.items is list and data is mapping",
        "data.approved is boolean and data.score is number and text is string",
        "data.nothing | default(true)",
        "data.note | default(true)",
        "data.a.b.c | default('x') == 'x'",
        "data.spelt | int > 5",
        "state.turn < 3",
        "'}}' not in text and '{{' not in text",
        "data.approved\n  and data.approved",
    ],
)
def test_it_is_true(text: str) -> None:
    assert Condition(text).problem(NAMES) is None
    assert Condition(text).holds(NAMES) is True


@pytest.mark.parametrize("text", ["data.score > 8", "not data.approved", "'x' in text", "data.nothing is defined"])
def test_it_is_false(text: str) -> None:
    assert Condition(text).holds(NAMES) is False


def test_fields_come_before_whatever_python_calls_the_same() -> None:
    assert Condition("data.count == 2 and data.items | length == 2").holds(NAMES)
    assert not Condition("data.keys is defined or text.upper is defined or data.items.append is defined").holds(NAMES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data.nothing", "data.nothing is missing"),
        ("data.nothing == 1", "data.nothing is missing"),
        ("data.nothing in []", "data.nothing is missing"),
        ("not data.nothing", "data.nothing is missing"),
        ("data.note.more == 1", "data.note.more is missing"),
        ("data.score", "data.score is the number 8, neither true nor false"),
        ("text", "text is the text 'Looks good to me. LGTM', neither true nor false"),
        ("data.approved and data.note", "data.note is null, neither true nor false"),
        ("not data.items", "data.items is a list, neither true nor false"),
        ("data.spelt > 5", "data.spelt is the text '8', which can't be compared with the number 5"),
        ("data.approved > 0", "data.approved is true, which can't be compared with the number 0"),
        ("'x' in data.score", "can't be searched for in the number 8"),
        ("3 in text", "the number 3, which can't be searched for in the text"),
        ("data.score / 0 == 1", "division by zero"),
        ("data.score + text == 1", "a number is needed, not the text"),
        ("text | int == 1", "is not a number"),
        ("data.items | sum > 1", "a number is needed, not the text 'a'"),
        ("[] | first == 1", "an empty list has no first or last"),
        ("data.score | lower == ''", "data.score: a text is needed, not the number 8"),
        ("1 if data.approved", "neither true nor false"),
        ("data.approved if false", "needs an 'else'"),
    ],
)
def test_what_cannot_be_answered_is_an_error_that_says_why(text: str, words: str) -> None:
    assert Condition(text).problem(NAMES) is None
    with pytest.raises(ExpressionFailed) as raised:
        Condition(text).holds(NAMES)
    assert words in str(raised.value)
    assert repr(text) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("data.approved and", "can't be parsed"),
        ("data.approved data.approved", "can't be parsed"),
        ("{{ data.approved }}", "write it without {{ }}"),
        ("data.approved }} and {{ data.approved", "not one expression"),
        ("data.approved }}{{ data.approved", "not one expression"),
        ("true }}{% if true %}{% endif %}{{ true", "not one expression"),
        ("dat.approved", "'dat' is not known here; did you mean 'data'?"),
        ("null == data.note", "'null' is not known here"),
        ("data.items | lenght == 2", "no filter 'lenght'; did you mean 'length'?"),
        ("data.score is divisibleby 2", "no test 'divisibleby'"),
        ("text | truncate == ''", "takes 1 values in brackets, and has 0"),
        ("data.items | join(',', 'a', 'b') == ''", "takes 0 to 2 values"),
        ("data.items | join(d=',') == ''", "in order, without names"),
        ("data.items | join(*data.items) == ''", "in order, without names"),
        ("text[::2] == ''", "[from:to]"),
        ("(1, 2) == 1", "a list in [ ]"),
        ("text ~ text == ''", "'~' is not supported"),
        ("x" * 2001, "at most 2000"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(text: str, words: str) -> None:
    problem = Condition(text).problem(NAMES)
    assert problem is not None
    assert words in problem


ESCAPES = [
    "text.__class__ == 1",
    "text['__class__'] == 1",
    "text[['__cla', 'ss__'] | join] == 1",
    "().__class__.__mro__[1].__subclasses__() == 1",
    "''.__class__.__base__ == 1",
    "data.__init__.__globals__ == 1",
    "text.upper() == ''",
    "text.format(1) == ''",
    "'{0.__class__}'.format(text) == ''",
    "text | format(1) == ''",
    "text | attr('__class__') == 1",
    "data | map(attribute='__class__') | list == 1",
    "range(10) == 1",
    "lipsum() == 1",
    "cycler.__init__ == 1",
    "joiner == 1",
    "namespace == 1",
    "self.__init__ == 1",
    "self._TemplateReference__context == 1",
    "loop == 1",
    "caller == 1",
    "__import__('os') == 1",
    "True.__class__ == 1",
]


@pytest.mark.parametrize("text", ESCAPES)
def test_nothing_of_python_can_be_reached(text: str) -> None:
    with pytest.raises(ExpressionFailed):
        Condition(text).holds(NAMES)


BOMBS = [
    "9**9**9 > 1",
    "'a' * 10**9 == ''",
    "'a' * 1000000000 == ''",
    "[0] * 1000000000 == []",
    "'%0999999999d' % 1 == ''",
    "999999999 * " * 100 + "1 > 1",
    "1e308 * 1e308 > 1",
    "data.score | round(-999999999) > 1",
    "data.score | round(999999999) > 1",
    "text | truncate(999999999) | truncate(-5) == ''",
    "big | join(huge) == ''",
    "(" * 900 + "1" + ")" * 900 + " > 1",
    "not " * 450 + "true",
    "1" + " + 1" * 450 + " > 1",
    "[" * 400 + "]" * 400 + " == 1",
    "data" + "[0]" * 600 + " == 1",
    "data" + ".a" * 900 + " == 1",
    "true" + " and true" * 200,
    "-" * 1900 + "1 > 1",
    "9" * 1990 + " * 9 > 1",
    " and ".join(["huge | lower | upper | lower != 'a'"] * 40),
]


@pytest.mark.parametrize("text", BOMBS)
def test_nothing_takes_long_or_grows_large(text: str) -> None:
    names: dict[str, JsonValue] = {**NAMES, "big": list[JsonValue](["x"] * 100_000), "huge": "a" * 1_000_000}
    with pytest.raises(ExpressionFailed):
        Condition(text).holds(names)


def test_what_is_compared_may_be_nested_beyond_the_stack() -> None:
    deep: JsonValue = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ExpressionFailed):
        Condition("data | tojson == ''").holds({"data": deep})
    while isinstance(deep, list) and deep:  # unwound by hand, as the interpreter would do it recursively
        deep = deep.pop()


def test_it_changes_nothing() -> None:
    names: dict[str, JsonValue] = {"data": {"items": [1, 2]}}
    Condition("data.items | sum == 3 and data.items[1:] == [2]").holds(names)
    assert names == {"data": {"items": [1, 2]}}


def test_it_says_what_it_asks_about() -> None:
    assert Condition("data.a and ('x' in text or error is none)").uses == {"data", "text", "error"}
    assert Condition("data.a and").uses == set()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
OPERATORS = ["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", "in", "not in", "and", "or"]
atoms = st.sampled_from(["data", "data.a", "data.b[0]", "data['c']", "text", "1", "2.5", "'a'", "none", "true", "[]"])
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS), inner),
        st.builds("not ({})".format, inner),
        st.builds("({}) | {}".format, inner, st.sampled_from(["length", "lower", "first", "int", "sum", "default(0)"])),
        st.builds("({}) is {}".format, inner, st.sampled_from(["defined", "none", "string", "not number"])),
        st.builds("({})[{}:]".format, inner, st.integers(-2, 2)),
        st.builds("({} if {} else {})".format, inner, inner, inner),
    ),
    max_leaves=6,
)


@given(expressions, json_values, st.text(max_size=20))
def test_whatever_is_asked_the_answer_is_true_or_false_or_an_error(text: str, data: JsonValue, said: str) -> None:
    names: dict[str, JsonValue] = {"data": data, "text": said}
    try:
        answer = Condition(text).holds(names)
    except ExpressionFailed:
        return
    assert isinstance(answer, bool)
    assert Condition(text).holds(names) is answer


@given(st.text(max_size=60))
def test_any_text_at_all_is_a_condition_or_a_mistake(text: str) -> None:
    problem = Condition(text).problem(NAMES)
    try:
        Condition(text).holds(NAMES)
    except ExpressionFailed:
        return
    assert problem is None
