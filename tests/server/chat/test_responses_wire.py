"""What clients send: nulls are absent fields, schemas are compared by what they mean, parts that come back are read."""

from __future__ import annotations

import pytest

from teamwright.server.chat.responses_wire import AnswerFormat, NewResponse, check_format
from teamwright.server.error_statuses import RefusedRequest

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string", "title": "Title"}, "n": {"$ref": "#/$defs/n"}},
    "required": ["title", "n"],
    "$defs": {"n": {"type": "integer"}},
}


def test_null_is_an_absent_field() -> None:
    given = {
        "model": "m", "input": [{"type": None, "role": "user", "content": "x", "id": None}], "metadata": None,
        "conversation": None, "text": {"format": None}, "stream": None, "previous_response_id": None,
    }  # fmt: skip
    asked = NewResponse.model_validate(given)
    assert [one.text for one in asked.messages] == ["x"]
    assert (asked.metadata, asked.conversation, asked.text.format.type) == ({}, None, "text")


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (SCHEMA, True),
        ({**SCHEMA, "required": ["n", "title"], "additionalProperties": False, "description": "d"}, True),
        ({**SCHEMA, "required": ["n"]}, False),
        ({**SCHEMA, "properties": {"n": {"$ref": "#/$defs/n"}}}, False),
        ({**SCHEMA, "$defs": {"n": {"type": "string"}}}, False),
        ({}, False),
    ],
)
def test_a_schema_fits_if_it_means_the_same(schema: dict[str, object], fits: bool) -> None:
    asked = AnswerFormat.model_validate({"type": "json_schema", "name": "n", "schema": schema})
    if fits:
        check_format(asked, "t", SCHEMA)
    else:
        with pytest.raises(RefusedRequest, match="another one"):
            check_format(asked, "t", SCHEMA)
    with pytest.raises(RefusedRequest, match="no output schema"):
        check_format(asked, "t", None)


def test_a_reply_comes_back_with_its_member_and_a_refusal_with_its_text() -> None:
    parts = [
        {"type": "output_text", "text": "one", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "no"},
    ]
    message = {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "member": "a",
        "phase": "x",
    }
    asked = NewResponse.model_validate({"model": "m", "input": [{**message, "content": parts}]})
    (found,) = asked.messages
    assert (found.member, found.text) == ("a", "one\nno")


def test_a_response_repeats_what_was_asked() -> None:
    form = {"type": "json_schema", "name": "n", "schema": SCHEMA}
    asked = NewResponse.model_validate(
        {"model": "m", "input": "x", "instructions": "i", "text": {"format": form}, "background": True}
    )
    found = asked.echo()
    assert (found["instructions"], found["background"], found["text"]["format"]["schema"]) == ("i", True, SCHEMA)
    assert "text" not in NewResponse.model_validate({"model": "m", "input": "x"}).echo()
