"""The view of a chat: words appear as soon as they are whole, and no half of a secret is ever shown."""

import re

import pytest
from hypothesis import given, strategies as st

from teamwright.cli.terminal.chat_view import AnswerStream, ChatView
from teamwright.values.events.event import Delta
from tests.cli.terminal.test_tool_calls_lines import asked
from tests.growth import assert_linear

KEY = "sk-proj-" + "a1B2c3D4" * 6


def pieces(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(st.text(alphabet="ab \n."), st.lists(st.integers(0, 30)))
def test_the_pieces_of_a_text_are_the_text(text: str, cuts: list[int]) -> None:
    stream = AnswerStream()
    shown = "".join(map(stream.feed, pieces(text, cuts)))
    assert shown + stream.finish() == text
    assert stream.text == text


def test_a_word_is_shown_when_it_is_whole() -> None:
    stream = AnswerStream()
    assert [stream.feed(piece) for piece in ("Hel", "lo ", "wor", "ld.\n", "Bye")] == ["", "Hello ", "", "world.\n", ""]
    assert stream.finish() == "Bye"


@given(st.lists(st.integers(0, 100)))
def test_a_secret_is_masked_wherever_the_text_is_cut(cuts: list[int]) -> None:
    stream = AnswerStream()
    shown = "".join(map(stream.feed, pieces(f"The key is {KEY} for now.\n", cuts))) + stream.finish()
    assert KEY[8:20] not in shown
    assert shown.endswith("for now.\n")


def test_the_inside_of_a_private_key_is_never_shown() -> None:
    stream = AnswerStream()
    text = "Here:\n-----BEGIN PRIVATE KEY-----\nshort line\nand more\n-----END PRIVATE KEY-----\nThat is it.\n"
    shown = "".join(map(stream.feed, pieces(text, list(range(0, len(text), 3))))) + stream.finish()
    assert "short" not in shown
    assert "more" not in shown
    assert shown.endswith("\nThat is it.\n")


def test_a_long_line_takes_linear_time() -> None:
    def show(given: list[str]) -> str:
        stream = AnswerStream()
        return "".join(map(stream.feed, given)) + stream.finish()

    assert_linear(show, prepare=lambda size: ["some words "] * size, size=2_000)


async def test_tool_calls_are_shown_with_arguments_and_results(capsys: pytest.CaptureFixture[str]) -> None:
    engine, events = await asked()
    view = ChatView(engine.journal)
    for event in events:
        await view.show(event)
        if event.kind == "agent.asked" and event.key != "tea":  # each member streams something
            member = "writer" if event.key == "tea/step-1" else "researcher"
            text = "An essay." if member == "writer" else "Tea is old."
            await view.show(Delta(run_id="r", key=event.key, member=member, attempt=1, offset=0, text=text))
    view.finish("An essay.")
    shown = capsys.readouterr()
    assert shown.out == "An essay.\n"  # what the researcher says is no answer
    assert [re.sub(r" +[\d.]+ s$", "", line) for line in shown.err.splitlines()] == [
        "⚙ asks researcher: What is tea?",
        "  researcher ⚙ lists the tools of shop → count",
        "  researcher ⚙ count → 3",
        "  researcher ▸ Tea is old. …",
    ]
