"""What a model thought is no part of its answer, wherever its tags are split."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart

from teamwright.agents.model.response_parts import CLOSE, OPEN, ThinkingFilter, with_thinking_apart


def divided(pieces: list[str]) -> tuple[str, str]:
    each = ThinkingFilter()
    found = [*(each.feed(piece) for piece in pieces), each.finish()]
    return "".join(one.thought for one in found), "".join(one.answer for one in found)


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("Three.", "", "Three."),
        ("<think>Hm.</think>Three.", "Hm.", "Three."),
        ("\n<think>\nHm.\n</think>\n\nThree.", "\nHm.\n", "Three."),
        ("<think>cut", "cut", ""),
        ("<think>", "", ""),
        ("<thin air", "", "<thin air"),
        ("I say <think>no</think>", "", "I say <think>no</think>"),
        ("", "", ""),
    ],
)
def test_thinking_at_the_beginning_is_apart_from_the_answer(text: str, thought: str, answer: str) -> None:
    assert divided([text]) == (thought, answer)
    assert divided(list(text)) == (thought, answer)


texts = st.lists(st.sampled_from([OPEN, CLOSE, "<", "think>", "</", " ", "\n", "a", "Three."]), max_size=8).map("".join)


@given(texts, st.lists(st.integers(0, 60), max_size=6))
def test_it_does_not_matter_where_a_text_is_split(text: str, cuts: list[int]) -> None:
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert divided([text[start:end] for start, end in pairwise(at)]) == divided([text])


def test_a_response_has_its_thinking_as_a_part() -> None:
    response = with_thinking_apart(ModelResponse([TextPart("<think>Hm.</think>Three.")]))
    assert response.parts == [ThinkingPart("Hm."), TextPart("Three.")]
    plain = ModelResponse([TextPart("Three.")])
    assert with_thinking_apart(plain) is plain
