"""The output of a response, folded from what happens: live in any pieces, or from the record, it is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from teamwright.server.chat.responses_output import OutputMessages
from teamwright.server.frames import Frame


def frame(kind: str, number: int | None = None, **fields: object) -> Frame:
    return Frame(number, kind, json.dumps(fields))


def asked(name: str, key: str, number: int = 1, purpose: str = "work") -> Frame:
    return frame("agent.asked", number, member=name, member_kind="model", key=key, scope="t", purpose=purpose)


def wrote(key: str, text: str, offset: int, output: str | None = None) -> Frame:
    return frame("delta.text", key=key, text=text, offset=offset, output=output)


def replied(key: str, text: str, number: int = 1) -> Frame:
    return frame("agent.replied", number, key=key, texts={"messages": [{"name": "x", "content": text, "role": None}]})


def folded(
    *frames: Frame, answer: str | None = None, after: int = 0, answering: str | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the events and the items of these frames."""
    output = OutputMessages("r", after, answering)
    events = [event for one in frames for event in output.take(one)]
    events += output.finish(answer, is_whole=True)
    return events, output.items


def said(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["phase"], one["content"][0]["text"]) for one in items]


def deltas(events: list[dict[str, Any]], item: str) -> str:
    return "".join(one["delta"] for one in events if one.get("item_id") == item and "delta" in one)


TWO = (
    asked("a", "1"), asked("b", "2"), wrote("2", "B", 0), wrote("1", "A ", 0), wrote("2", "bb", 1), replied("2", "Bbb"),
    wrote("1", "aa", 2), replied("1", "A aa"),
)  # fmt: skip


def test_messages_are_in_the_order_of_the_turns_whoever_ends_first() -> None:
    events, items = folded(*TWO, answer="A aa\n\nBbb")
    assert said(items) == [("commentary", "A aa"), ("commentary", "Bbb"), ("final_answer", "A aa\n\nBbb")]
    assert [one["item"]["id"] for one in events if one["type"] == "response.output_item.added"] == [
        one["id"] for one in items
    ]


def test_the_last_message_is_the_answer_where_its_text_is() -> None:
    _, items = folded(asked("a", "1"), replied("1", "one"), asked("b", "2"), replied("2", "two"), answer="two")
    assert said(items) == [("commentary", "one"), ("final_answer", "two")]


@given(st.integers(1, 5))
def test_live_and_from_the_record_the_messages_are_the_same(width: int) -> None:
    recorded = [one for one in TWO if one.number is not None]
    live: list[Frame] = []
    for one in TWO:
        if one.kind != "delta.text":
            live.append(one)
            continue
        fields = json.loads(one.text)
        text, offset = fields["text"], fields["offset"]
        live += [wrote(fields["key"], text[at : at + width], offset + at) for at in range(0, len(text), width)]
    assert folded(*live, answer="x")[1] == folded(*recorded, answer="x")[1]


def test_what_a_member_says_beside_its_calls_is_a_message_of_its_own() -> None:
    called = {"response": "Let me look.", "calls": [{"tool": "t", "arguments": {}}]}
    returned = frame("agent.returned", 2, scope="1", texts=called)
    last = frame("agent.returned", 3, scope="1", texts={"response": "It is five."})
    live = (
        asked("a", "1"), wrote("1", "Let me ", 0), wrote("1", "look.", 7), returned, wrote("1", "It is ", 0),
        wrote("1", "five.", 6), last, replied("1", "It is five.", 4),
    )  # fmt: skip
    events, items = folded(*live, answer="It is five.")
    assert said(items) == [("commentary", "Let me look."), ("final_answer", "It is five.")]
    assert [deltas(events, one["id"]) for one in items] == ["Let me look.", "It is five."]
    assert folded(*(one for one in live if one.number is not None), answer="It is five.")[1] == items


def test_another_attempt_is_a_message_of_its_own_while_it_is_written() -> None:
    events, items = folded(
        asked("a", "1"), wrote("1", "The sea ", 0), wrote("1", "The moun", 0), wrote("1", "tain", 8),
        replied("1", "The mountain"), answer="The mountain",
    )  # fmt: skip
    assert said(items) == [("commentary", "The sea"), ("final_answer", "The mountain")]
    assert [one["status"] for one in items] == ["incomplete", "completed"]
    assert [deltas(events, one["id"]) for one in items] == ["The sea", "The mountain"]


def test_a_turn_that_fails_ends_the_message_that_it_began() -> None:
    failed = frame("agent.failed", 2, key="1", texts={"messages": []})
    _, items = folded(asked("a", "1"), wrote("1", "half", 0), failed, asked("b", "2"), replied("2", "whole"))
    assert said(items) == [("commentary", "half"), ("commentary", "whole")]


def test_what_waits_behind_a_turn_without_an_end_is_said_at_the_end() -> None:
    _, items = folded(asked("a", "1"), asked("b", "2"), replied("2", "two"), answer="two")
    assert said(items) == [("final_answer", "two")]


def test_judges_teams_and_structured_output_write_no_messages() -> None:
    team = frame("agent.asked", 1, member="t", member_kind="team", key="t", scope="", purpose="work")
    events, items = folded(
        team, asked("j", "1", purpose="judge"), wrote("1", "7", 0), replied("1", "7"),
        asked("a", "2"), wrote("2", '{"a"', 0, "data"), replied("2", '{"a": 1}'), replied("t", "all"),
        answer='{"a": 1}',
    )  # fmt: skip
    assert said(items) == [("final_answer", '{"a": 1}')]
    assert deltas(events, items[0]["id"]) == '{"a": 1}'


def test_a_later_part_has_what_is_said_after_its_answer() -> None:
    frames = asked("a", "1", 1), replied("1", "one", 2), asked("b", "2", 3), replied("2", "two", 5)
    assert said(folded(*frames, after=4, answer="two")[1]) == [("final_answer", "two")]
    assert said(folded(*frames, after=1, answer="two")[1]) == [("commentary", "one"), ("final_answer", "two")]


def test_the_phase_of_a_message_is_known_at_its_beginning_where_the_last_member_answers() -> None:
    frames = asked("a", "1"), wrote("1", "one", 0), replied("1", "one"), asked("b", "2"), wrote("2", "two", 0)
    events, _ = folded(*frames, replied("2", "two"), answer="two", answering="b")
    added = [one["item"]["phase"] for one in events if one["type"] == "response.output_item.added"]
    assert added == ["commentary", "final_answer"]
    assert "phase" not in folded(*frames)[0][0]["item"]


def test_a_blank_reply_is_no_message() -> None:
    assert folded(asked("a", "1"), wrote("1", " \n", 0), replied("1", " "))[1] == []


@pytest.mark.parametrize("width", [1, 7, 100])
def test_what_the_record_leaves_out_of_a_text_is_not_written(width: int) -> None:
    whole = 'Done.\n\n```envelope\n{"status": "done", "summary": "s"}\n```\n'
    pieces = [wrote("1", whole[at : at + width], at) for at in range(0, len(whole), width)]
    events, items = folded(asked("a", "1"), *pieces, replied("1", "Done."), answer="Done.")
    assert said(items) == [("final_answer", "Done.")]
    assert deltas(events, items[0]["id"]) == "Done."


def test_a_record_that_says_something_else_is_another_message() -> None:
    events, items = folded(asked("a", "1"), wrote("1", "It is red.", 0), replied("1", "It is blue."))
    assert said(items) == [("commentary", "It is red."), ("commentary", "It is blue.")]
    assert [one["status"] for one in items] == ["incomplete", "completed"]
    assert [deltas(events, one["id"]) for one in items] == ["It is red.", "It is blue."]
