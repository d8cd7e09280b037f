"""A client of `/v1` reads the answer as it is written, once, and what others say one after the other."""

from __future__ import annotations

import json

from teamwright import FunctionAgent, Team
from teamwright.server.chat.chat_completions import CompletionText
from teamwright.server.frames import Frame
from teamwright.values.people import Confirm

ROOT = {"member": "t", "member_kind": "team", "key": "t", "scope": ""}


def agent(name: str, **policy: object) -> FunctionAgent:
    return FunctionAgent(name, lambda text: text, **policy)  # pyright: ignore[reportArgumentType]


def frame(kind: str, **fields: object) -> Frame:
    return Frame(None if kind.startswith("delta") else 1, kind, json.dumps(fields))


def asked(name: str, key: str) -> Frame:
    return frame("agent.asked", member=name, member_kind="model", key=key, scope="t")


def wrote(key: str, text: str, offset: int, output: str | None = None) -> Frame:
    return frame("delta.text", key=key, text=text, offset=offset, output=output)


def replied(key: str, text: str) -> Frame:
    return frame("agent.replied", key=key, texts={"messages": [{"name": "x", "content": text}]})


def told(team: Team, *frames: Frame) -> tuple[list[tuple[str, str]], CompletionText]:
    text = CompletionText(team)
    return [piece for one in (frame("agent.asked", **ROOT), *frames) for piece in text.pieces(one)], text


def test_the_last_of_a_sequence_writes_the_answer_and_others_think_aloud() -> None:
    found, text = told(
        Team("t", members=[agent("a"), agent("b")]),
        asked("a", "t/1"), wrote("t/1", "first ", 0), wrote("t/1", "thoughts ", 6),
        replied("t/1", "first thoughts here"),
        asked("b", "t/2"), wrote("t/2", "the ", 0), wrote("t/2", "answer ", 4), replied("t/2", "the answer is two"),
        replied("t", "first thoughts here\n\nthe answer is two"),
    )  # fmt: skip
    assert found == [
        ("reasoning_content", "a: first"),
        ("reasoning_content", " thoughts"),
        ("reasoning_content", " here\n\n"),
        ("content", "the"),
        ("content", " answer"),
    ]
    assert text.rest("the answer is two") == " is two"


def test_members_who_write_at_once_are_told_one_after_the_other() -> None:
    found, text = told(
        Team("t", members=[agent("a"), agent("b")], strategy="round_robin", max_turns=2),
        asked("a", "t/1"), asked("b", "t/2"), wrote("t/1", "one ", 0), wrote("t/2", "two ", 0),
        wrote("t/1", "more ", 4), wrote("t/2", "words ", 4), replied("t/1", "one more"), wrote("t/2", "now ", 10),
        replied("t/2", "two words now"),
    )  # fmt: skip
    assert "".join(piece for _, piece in found) == "a: one more\n\nb: two words now\n\n"
    assert {kind for kind, _ in found} == {"reasoning_content"}
    assert text.rest("two words now") == "two words now"


def test_what_may_still_change_is_no_answer_yet() -> None:
    twice = agent("a")
    for members in ([twice, agent("b"), twice], [twice, agent("b", confirm=Confirm(after=True))]):
        last = members[-1].name
        found, _ = told(Team("t", members=members), asked(last, "t/1"), wrote("t/1", "a draft ", 0))
        assert found == [("reasoning_content", f"{last}: a draft")]


def test_an_attempt_that_broke_off_is_followed_by_the_whole_answer() -> None:
    found, text = told(
        Team("t", members=[agent("a")]),
        asked("a", "t/1"), wrote("t/1", "half ", 0), wrote("t/1", "all ", 0), replied("t/1", "all of it"),
    )  # fmt: skip
    assert found[0] == ("content", "half")
    assert text.rest("all of it") == "\n\nall of it"


def test_structured_output_is_not_told_piece_by_piece() -> None:
    found, text = told(
        Team("t", members=[agent("a")]), asked("a", "t/1"), wrote("t/1", '{"x": ', 0, "data"), replied("t/1", "x is 1")
    )
    assert (found, text.rest("x is 1")) == ([], "x is 1")


def test_the_envelope_below_an_answer_is_not_told() -> None:
    found, text = told(
        Team("t", members=[agent("a")]),
        asked("a", "t/1"), wrote("t/1", "Done.\n\n``", 0), wrote("t/1", '`envelope\n{"status": "done"}', 9),
        replied("t/1", "Done."),
    )  # fmt: skip
    assert (found, text.rest("Done.")) == ([("content", "Done.")], "")
