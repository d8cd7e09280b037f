"""Whom a selector means, whatever it answers."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright.strategies.selector import (
    SelectorChoice,
    UnclearChoice,
    read_selection,
    selection_schema,
)
from teamwright.values.turns.turn import Reply

MEMBERS = ["writer", "senior-writer", "Editor", "agent.2"]


def read(text: str = "", data: JsonValue = None, candidates: list[str] | None = None) -> SelectorChoice | UnclearChoice:
    return read_selection(Reply.of("chair", text, data=data), candidates or MEMBERS, MEMBERS)


@pytest.mark.parametrize(
    ("text", "name", "how"),
    [
        ("writer", "writer", "exact"),
        ("  writer \n", "writer", "exact"),
        ("agent.2", "agent.2", "exact"),
        ("WRITER", "writer", "case"),
        ("editor", "Editor", "case"),
        ("The writer should go on.", "writer", "mention"),
        ("writer.", "writer", "mention"),
        ("**writer**", "writer", "mention"),
        ("_writer_", "writer", "mention"),
        ('"writer"', "writer", "mention"),
        ("@writer!", "writer", "mention"),
        ("writer: because it is their turn, so writer", "writer", "mention"),
        ("Let the writer's pen speak", "writer", "mention"),
        ("Writer, please", "writer", "mention"),
        ("下一位是writer。", "writer", "mention"),
        ("I choose senior-writer", "senior-writer", "mention"),
        ("Next is agent.2.", "agent.2", "mention"),
        ('{"member": "writer"}', "writer", "structured"),
        ('```json\n{"member": "writer", "why": "it is time"}\n```', "writer", "structured"),
        ('Here you are: {"member": "writer"}', "writer", "structured"),
    ],
)
def test_the_parser_finds_the_named_member(text: str, name: str, how: str) -> None:
    assert read(text) == SelectorChoice(name, how)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("data", "name", "how"),
    [
        ({"member": "writer"}, "writer", "structured"),
        ({"member": " writer ", "reason": "x"}, "writer", "structured"),
        ({"member": "WRITER"}, "writer", "case"),
        ({"member": "the writer"}, "writer", "mention"),
    ],
)
def test_structured_output_comes_first(data: JsonValue, name: str, how: str) -> None:
    assert read("Editor", data) == SelectorChoice(name, how)  # pyright: ignore[reportArgumentType]


def test_data_of_another_form_leaves_it_to_the_text() -> None:
    assert read("writer", {"next": "Editor"}) == SelectorChoice("writer", "exact")
    assert read("writer", ["Editor"]) == SelectorChoice("writer", "exact")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the answer is empty"),
        (" \n\t", "the answer is empty"),
        ("I can't decide", "names nobody who may speak"),
        ("writer or Editor", "names 2 of those who may speak"),
        ("writer, senior-writer, Editor and agent.2 are all fine", "names 4 of those who may speak"),
        ("ghostwriter", "names nobody"),
        ("junior-writer", "names nobody"),
        ("writer.v2", "names nobody"),
        ("write", "names nobody"),
        ('{"member": "nobody"}', "'nobody' names nobody"),
        ('{"member": "writer"} or {"member": "Editor"}', "names 2"),
        ("x" * 500, "…' names nobody"),
    ],
)
def test_anything_else_is_unclear_and_says_why(text: str, words: str) -> None:
    found = read(text)
    assert isinstance(found, UnclearChoice)
    assert words in found.reason
    assert len(found.reason) < 200


def test_only_candidates_can_be_chosen() -> None:
    candidates = ["Editor", "agent.2"]
    assert read("writer", candidates=candidates) == UnclearChoice(
        "the answer 'writer' names 'writer', who may not speak now"
    )
    assert read("The writer is done, so the Editor comes", candidates=candidates) == SelectorChoice("Editor", "mention")
    assert isinstance(read("", {"member": "writer"}, candidates), UnclearChoice)


def test_members_that_differ_in_letters_alone_are_distinguished() -> None:
    twins = ["anna", "Anna"]
    assert read_selection(Reply.of("c", "Anna"), twins, twins) == SelectorChoice("Anna", "exact")
    assert isinstance(read_selection(Reply.of("c", "ANNA"), twins, twins), UnclearChoice)
    assert read_selection(Reply.of("c", "let anna speak"), twins, twins) == SelectorChoice("anna", "mention")


def test_the_requested_schema_lists_the_candidates() -> None:
    schema = selection_schema(["a", "b"])
    assert schema["properties"] == {"member": {"type": "string", "enum": ["a", "b"], "description": "who speaks next"}}


@given(st.text(), st.none() | st.dictionaries(st.sampled_from(["member", "x"]), st.text() | st.integers()))
def test_whatever_is_answered_only_a_candidate_is_meant(text: str, data: JsonValue) -> None:
    found = read(text, data, ["writer", "Editor"])
    assert isinstance(found, UnclearChoice) or found.name in {"writer", "Editor"}
