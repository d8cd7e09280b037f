"""Shows characters that a screen hides or obeys: escapes, carriage returns, reversed and zero-width text.

For everything that a person reads in order to decide. Nothing is left out: each such character stands there by its
name, as in `⟨ESC⟩` or `⟨U+202E⟩`, and `original` gives the text back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from teamwright.values.secrets.patterns import secret_spans
from teamwright.values.text.timed_regex import unicode_pattern

_NAMES = {0: "NUL", 7: "BEL", 8: "BS", 11: "VT", 12: "FF", 13: "CR", 27: "ESC", 127: "DEL", 0x27E8: "U+27E8"}
_BY_NAME = {name: chr(code) for code, name in _NAMES.items()}
_ASCII_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_MARK = re.compile(r"⟨(?:U\+([0-9A-F]{4,6})|([A-Z]{2,3})|secret ([0-9]{1,6}))⟩")
_JOINER = "\u200d"
_STYLES = ("\ufe0f", "\ufe0e")


def visible(text: str) -> str:
    """The text with a name in place of each character that is not seen or that moves others; lines and tabs stay."""
    if text.isascii():
        return _ASCII_CONTROLS.sub(lambda found: _named(found[0]), text)
    return _unseen().sub(lambda found: _shown(found, text), text)


def visible_for_editing(text: str) -> tuple[str, list[str]]:
    """The same, with a number in place of each text that looks like a secret, and what the numbers stand for."""
    parts: list[str] = []
    secrets: list[str] = []
    at = 0
    for start, end in secret_spans(text):
        secrets.append(text[start:end])
        parts += (visible(text[at:start]), f"⟨secret {len(secrets)}⟩")
        at = end
    return "".join([*parts, visible(text[at:])]), secrets


def original(text: str, secrets: Sequence[str] = ()) -> str:
    """The text for which a visible one stands; a mark that nobody made stays as it is."""

    def character(found: re.Match[str]) -> str:
        if found[1] and int(found[1], 16) < 0x110000:
            return chr(int(found[1], 16))
        if found[3] and 0 < int(found[3]) <= len(secrets):
            return secrets[int(found[3]) - 1]
        return _BY_NAME.get(found[2] or "", found[0])

    return _MARK.sub(character, text)


@cache
def _unseen() -> re.Pattern[str]:
    """Controls, formats, separators of lines, private and half characters, and all that Unicode calls ignorable."""
    return unicode_pattern(r"[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}⟨--[\n\t]]")


def _shown(found: re.Match[str], text: str) -> str:
    """A joiner inside of an emoji is part of what is seen; any other stands there by its name."""
    char, before, after = found[0], text[max(0, found.start() - 1) : found.start()], text[found.end() : found.end() + 1]
    if char == _JOINER:
        inside = (_is_picture(before) or before in _STYLES) and _is_picture(after)
    else:
        inside = char in _STYLES and _is_picture(before)
    return char if inside else _named(char)


def _is_picture(char: str) -> bool:
    return bool(char) and char >= "\u2190" and ("\U0001f000" <= char <= "\U0001ffff" or char <= "\u2bff")


def _named(char: str) -> str:
    return f"⟨{_NAMES.get(ord(char)) or f'U+{ord(char):04X}'}⟩"
