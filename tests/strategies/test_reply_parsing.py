"""Reading a value out of a reply, however it is wrapped, and saying what is wrong with one that does not fit."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st
from pydantic import BaseModel, JsonValue, TypeAdapter

from teamwright.strategies.reply_parsing import ParseFailure, candidate_values, read_answer
from teamwright.values.turns.turn import Reply


class Choice(BaseModel):
    name: str
    score: int = 0


FORM = TypeAdapter(Choice)
ANN = '{"name": "ann", "score": 3}'


def said(text: str, data: JsonValue = None) -> Reply:
    return Reply.of("a", text, data=data)


def problem(reply: Reply) -> str:
    found = read_answer(reply, FORM)
    assert isinstance(found, ParseFailure)
    return found.problem


@pytest.mark.parametrize(
    "text",
    [
        ANN,
        f"\n  {ANN}\n",
        f"```json\n{ANN}\n```",
        f"Well, I think:\n\n```\n{ANN}\n```\nThat is all.",
        f"My choice is {ANN}, since it is best.",
        f"[not JSON] and {{neither is this}}, but {ANN} is",
        f"{ANN} and once more {ANN}",
        f'First {{"nom": 1}}, then [1, 2], then {ANN}',
    ],
)
def test_json_is_found_alone_in_a_block_and_in_prose(text: str) -> None:
    assert read_answer(said(text), FORM) == Choice(name="ann", score=3)


def test_data_come_before_the_text() -> None:
    assert read_answer(said(ANN, {"name": "ben"}), FORM) == Choice(name="ben")


def test_the_text_is_read_where_the_data_do_not_fit() -> None:
    assert read_answer(said(ANN, {"other": 1}), FORM) == Choice(name="ann", score=3)


def test_a_block_comes_before_prose() -> None:
    text = f'Not {{"name": "ben"}} but\n```json\n{ANN}\n```'
    assert read_answer(said(text), FORM) == Choice(name="ann", score=3)


def test_two_answers_that_differ_are_none() -> None:
    assert "2 different answers" in problem(said(f'{ANN} or {{"name": "ben"}}'))


@pytest.mark.parametrize("text", ["", "ann", "The best is ann.", "{name: ann}", '{"name": ', "NaN", '{"name": NaN}'])
def test_a_text_without_json_is_reported(text: str) -> None:
    assert problem(said(text)) == "it holds no JSON"


def test_what_does_not_fit_is_reported_with_its_places() -> None:
    assert problem(said('{"score": "many"}')) == (
        "at 'name': Field required; at 'score': Input should be a valid integer, unable to parse string as an integer"
    )


def test_a_long_list_of_mistakes_is_cut() -> None:
    many = TypeAdapter(list[int])
    found = read_answer(said(json.dumps(["x"] * 30)), many)
    assert isinstance(found, ParseFailure)
    assert found.problem.endswith("; and 25 more")


@pytest.mark.parametrize(
    "text",
    ["[" * 150_000, '{"a":' * 40_000, "{" * 100_000 + ANN, '{"name": "\\ud800"}', '{"name": 1' + "0" * 5000 + "}"],
    ids=["brackets", "nested", "braces", "surrogate", "digits"],
)
def test_a_text_made_to_trip_the_reader_is_only_unreadable(text: str) -> None:
    assert isinstance(read_answer(said(text), FORM), ParseFailure)


@given(st.text())
@example("[[[{{{")
@example('```json\n{"name": "x"}')
def test_no_text_ever_breaks_the_reader(text: str) -> None:
    found = read_answer(said(text), FORM)
    assert isinstance(found, Choice | ParseFailure)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    value=JSON.filter(lambda value: isinstance(value, list | dict)),
    before=st.text("abc {}[]\n"),
    after=st.text("xyz\n"),
)
def test_what_was_written_into_prose_is_found_there(value: JsonValue, before: str, after: str) -> None:
    text = f"{before.replace('{', '').replace('[', '')}{json.dumps(value)}{after}"
    assert any(value in values for values in candidate_values(said(text)))
