from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from teamwright.cli.terminal.output import check_out, clean, json_text, one_line
from teamwright.errors import UsageError


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x00b\x07c\x7fd\x9be", "abcde"),
        ("one\r\ntwo\rthree", "one\ntwothree"),
        ("\u202eevil", "evil"),
        ("half \ud800 pair", "half  pair"),
        ("größe 漢字 🎉", "größe 漢字 🎉"),
    ],
)
def test_what_could_steer_a_terminal_is_taken_out(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text())
def test_no_control_character_is_ever_left(text: str) -> None:
    assert not [char for char in clean(text) if (ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160]


@given(st.text(st.characters()))
def test_json_can_be_read_back_and_holds_no_raw_control_character(text: str) -> None:
    written = json_text({"text": text})
    assert json.loads(written) == {"text": text}
    assert not [char for char in written if (ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160]


def test_the_first_line_that_says_something_stands_for_the_rest() -> None:
    assert one_line("\n\n  first \nsecond") == "first …"
    assert one_line("only\n") == "only"
    assert one_line(" \n") == ""


def test_a_file_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    check_out(None)
    check_out(tmp_path / "new.txt")
    for bad in (tmp_path, tmp_path / "missing" / "a.txt"):
        with pytest.raises(UsageError, match="--out"):
            check_out(bad)
