"""Characters that a screen hides or obeys are shown by name, and nothing is lost."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, strategies as st

from teamwright.values.text.display import original, visible, visible_for_editing
from tests.growth import assert_linear

# S-02


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nof lines", "plain\ttext\nof lines"),
        ("größe 漢字 🎉 👩‍👧 ✔️", "größe 漢字 🎉 👩‍👧 ✔️"),
        ("\x1b[31mred\x1b[0m", "⟨ESC⟩[31mred⟨ESC⟩[0m"),
        ("rm -rf /\rls", "rm -rf /⟨CR⟩ls"),
        ("one\r\ntwo", "one⟨CR⟩\ntwo"),
        ("no\b\byes", "no⟨BS⟩⟨BS⟩yes"),
        ("a\x00b\x07c\x7fd\x9be\x85f", "a⟨NUL⟩b⟨BEL⟩c⟨DEL⟩d⟨U+009B⟩e⟨U+0085⟩f"),
        ("pay\u202e001\u202c", "pay⟨U+202E⟩001⟨U+202C⟩"),
        ("\u2066a\u2069\u200e\u200f", "⟨U+2066⟩a⟨U+2069⟩⟨U+200E⟩⟨U+200F⟩"),
        ("in\u200bvisi\u2060ble\ufeff\u00ad\u3164", "in⟨U+200B⟩visi⟨U+2060⟩ble⟨U+FEFF⟩⟨U+00AD⟩⟨U+3164⟩"),
        ("one\u2028two\u2029", "one⟨U+2028⟩two⟨U+2029⟩"),
        ("tag\U000e0041 \U000e0100", "tag⟨U+E0041⟩ ⟨U+E0100⟩"),
        ("a\u200db \ufe0f😀\ufe0f\ufe0f", "a⟨U+200D⟩b ⟨U+FE0F⟩😀\ufe0f⟨U+FE0F⟩"),
        ("half \ud800 pair", "half ⟨U+D800⟩ pair"),
        ("⟨ESC⟩", "⟨U+27E8⟩ESC⟩"),
    ],
)
def test_what_is_not_seen_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert original(shown) == text


@given(st.text(st.characters(codec=None)))
def test_every_control_and_format_character_is_shown_and_none_is_lost(text: str) -> None:
    shown = visible(text)
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert not [char for char in shown if unicodedata.category(char) in hidden and char not in "\n\t\u200d"]
    assert original(shown) == text


def test_secrets_in_an_edited_text_are_numbers_and_come_back() -> None:
    draft = "curl -H 'x-api-key: abc123' \x1b[1m https://u:pw@h/ ⟨secret 1⟩"
    shown, secrets = visible_for_editing(draft)
    assert shown == "curl -H 'x-api-key: ⟨secret 1⟩' ⟨ESC⟩[1m https://u:⟨secret 2⟩@h/ ⟨U+27E8⟩secret 1⟩"
    assert original(shown, secrets) == draft
    assert original("⟨secret 9⟩ ⟨secret 0⟩ ⟨XY⟩ ⟨U+FFFFFF⟩", secrets) == "⟨secret 9⟩ ⟨secret 0⟩ ⟨XY⟩ ⟨U+FFFFFF⟩"


@pytest.mark.parametrize("unit", ["x", "\x1b", "\u200b", "😀\u200d", "⟨", "⟨secret 1⟩", "⟨U+", "\ufe0f"])
def test_showing_takes_time_in_proportion_to_the_text(unit: str) -> None:
    # S-01
    assert_linear(
        lambda text: (visible(text), original(text), visible_for_editing(text)),
        prepare=lambda size: unit * (size // len(unit)),
        size=20_000,
    )
