"""The form of a ruling is read however it is spelt, and its schema offers just the words that are known."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from teamwright.strategies.envelopes.ruling import Ruling, ruling_schema

RULING = TypeAdapter(Ruling[Literal["yes", "no"]])


@pytest.mark.parametrize("said", ["yes", " Yes ", "YES\n"])
def test_a_word_counts_however_it_is_spelt(said: str):
    assert RULING.validate_python({"decision": said}) == Ruling[Literal["yes", "no"]](decision="yes")


def test_what_else_is_said_is_left_aside_and_the_note_is_kept():
    ruling = RULING.validate_python({"decision": "no", "note": "too dear", "mood": "grim"})
    assert (ruling.decision, ruling.note) == ("no", "too dear")


@pytest.mark.parametrize("said", ["perhaps", "", None, 1])
def test_another_word_is_no_ruling(said: object):
    with pytest.raises(ValidationError):
        RULING.validate_python({"decision": said})


def test_the_form_offers_the_words_in_their_order_and_asks_for_no_note():
    form = ruling_schema(("yes", "no"), "why")
    assert form["required"] == ["decision"]
    assert form["properties"] == {
        "decision": {"type": "string", "enum": ["yes", "no"]},
        "note": {"type": "string", "description": "why"},
    }
