"""The view of a chat: words appear as soon as they are whole, and no half of a secret is ever shown."""

from hypothesis import given
from hypothesis import strategies as st

from teamwright.cli.views.chat import AnswerStream
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
