"""Steps of a plan appear one by one while it is written, whatever the pieces are, in linear time."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from teamwright.values.typed_data import MOST_STEPS, WrittenSteps
from tests.profiles import examples

PLAN = {
    "reason": "a [list] and {braces} in a text",
    "steps": [
        {"id": "look", "role": "archive", "task": 'Look "it" up.\nAll of it.', "needs": []},
        {
            "id": "both",
            "task": "Compete.",
            "agents": ["ana", "ben"],
            "parts": [{"id": "p", "agent": "ana", "task": "x"}],
        },
        {"id": "end", "role": "author"},
    ],
}
LINES = (
    'step 1: look – Look "it" up. All of it. (archive)',
    "step 2: both – Compete. (ana, ben)",
    "step 3: end (author)",
)


@given(st.lists(st.integers(1, 40), max_size=60), st.sampled_from([None, 1]))
@examples(60)
def test_each_step_appears_once_whatever_the_pieces_are(cuts: list[int], indent: int | None) -> None:
    text, found, written = json.dumps(PLAN, indent=indent, ensure_ascii=False), list[str](), WrittenSteps()
    at = 0
    for size in (*cuts, len(text)):
        found += written.feed(text[at : at + size])
        at += size
    assert tuple(found) == LINES == tuple(written.lines)


def test_a_step_appears_with_its_last_character_and_not_before() -> None:
    written, text = WrittenSteps(), json.dumps(PLAN)
    end = text.index("}, {") + 1
    assert written.feed(text[: end - 1]) == ()
    assert written.feed(text[end - 1 : end]) == LINES[:1]


@pytest.mark.parametrize(
    "text",
    [
        'Here is a "plan" of steps.',
        '{"winner": "answer-1", "reason": "short"}',
        '{"criteria": [{"id": "clear", "passed": true}]}',
        "]}}]",
        '[{"id": 1, "task": ["x"]}, {"task": "nameless"}, {"id": "torn", "task": }]',
    ],
)
def test_what_is_no_plan_shows_nothing(text: str) -> None:
    assert WrittenSteps().feed(text) == ()


def test_a_list_in_a_fence_and_prose_around_it_is_a_plan() -> None:
    text = f"Sure, here's it:\n```json\n{json.dumps(PLAN['steps'])}\n```"
    assert WrittenSteps().feed(text) == LINES


def test_steps_without_end_are_bounded() -> None:
    written, step = WrittenSteps(), json.dumps({"id": "again", "task": "word " * 50})
    written.feed("[")
    for _ in range(5 * MOST_STEPS):
        written.feed(f"{step},")
    assert len(written.lines) == MOST_STEPS
    assert max(map(len, written.lines)) < 200
