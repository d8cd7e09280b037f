"""JSON within text: found wherever it stands, and given up where a text holds nothing but beginnings of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from teamwright.agents.prompt_notices import extract_note
from teamwright.strategies.reply_parsing import ParseFailure, candidate_values, read_answer
from teamwright.strategies.selector import SelectorChoice, UnclearChoice, read_selection
from teamwright.values.turns.messages import EnvelopeLimits
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.typed_data import JsonScan
from tests.growth import assert_linear

PIECES = ["{", '["', "[1,", '{"a": "', '```\n{"a": 1}\n```\n']
FENCES = ["```envelope\n{", "```json\n{", "```", '```envelope\n{"summary": "', "risk level "]
FORWARDED = Turn("go", envelope_limits=EnvelopeLimits())


@given(st.text(alphabet='ab {}[]",\n'), st.recursive(st.integers() | st.text(max_size=3), st.lists, max_leaves=5))
def test_a_value_is_read_where_it_begins(before: str, value: object) -> None:
    text = before + json.dumps(value)
    found = JsonScan(text).at(len(before))
    assert found is not None
    assert (found.value, found.end) == (value, len(text))


def test_what_is_unfinished_is_no_value_and_a_later_one_is_still_found() -> None:
    text = '[1, {"a": [2, 3]'
    scan = JsonScan(text)
    assert scan.at(0) is None
    assert scan.at(4) is None
    found = scan.at(text.index("[2"))
    assert found is not None
    assert found.value == [2, 3]


def test_a_text_that_is_read_again_and_again_is_given_up() -> None:  # S-01
    text = "[1," * 100 + "1," * 20_000
    scan = JsonScan(text)
    for number in range(100):
        scan.at(3 * number)
    assert scan.at(text.index("1")) is None  # there is a value, but enough has been read


@pytest.mark.parametrize("piece", PIECES)
def test_reading_an_answer_out_of_a_reply_takes_linear_work(piece: str) -> None:  # S-01
    def read(text: str) -> None:
        for values in candidate_values(Reply.of("a", text)):
            list(values)

    assert_linear(read, prepare=lambda size: (piece * size)[:size] + "1," * (size // 4), size=40_000)


@pytest.mark.parametrize("piece", FENCES)
def test_reading_a_note_out_of_a_reply_takes_linear_work(piece: str) -> None:  # S-01
    def read(text: str) -> None:
        extract_note(Reply.of("a", text), FORWARDED)

    assert_linear(read, prepare=lambda size: (piece * size)[:size], size=40_000)


def test_thousands_of_different_answers_are_not_compared_with_each_other() -> None:  # S-01
    def read(text: str) -> None:
        found = read_answer(Reply.of("a", text), TypeAdapter(dict[str, int]))
        assert isinstance(found, ParseFailure)
        assert "different answers" in found.problem

    assert_linear(read, prepare=lambda size: "".join(f'```\n{{"a": {n}}}\n```\n' for n in range(size)), size=500)


def test_looking_for_a_name_takes_linear_work() -> None:  # S-01
    names = [f"member-{number}" for number in range(300)]

    def read(text: str) -> None:
        assert isinstance(read_selection(Reply.of("a", text), names, names), UnclearChoice | SelectorChoice)

    assert_linear(read, prepare=lambda size: "MEMBER-x " * (size // 9), size=10_000)
