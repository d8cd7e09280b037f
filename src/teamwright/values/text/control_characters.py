"""Makes control and format characters visible: escapes, carriage returns, bidirectional and zero-width characters.

Used for everything on which a person decides. No character is dropped: each is shown by its name, as `⟨ESC⟩` or
`⟨U+202E⟩`, and `original` restores the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from teamwright.values.text.secret_patterns import secret_spans
from teamwright.values.text.timed_regex import unicode_pattern

_NAMES = {0: "NUL", 7: "BEL", 8: "BS", 11: "VT", 12: "FF", 13: "CR", 27: "ESC", 127: "DEL", 0x27E8: "U+27E8"}
_BY_NAME = {name: chr(code) for code, name in _NAMES.items()}
_ASCII_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_MARK = re.compile(r"⟨(?:U\+([0-9A-F]{4,6})|([A-Z]{2,3})|secret ([0-9]{1,6}))⟩")
_JOINER = "\u200d"
_STYLES = ("\ufe0f", "\ufe0e")


def visible(text: str) -> str:
    """Replace every invisible or control character by its name; line feeds and tabs stay."""
    if text.isascii():
        return _ASCII_CONTROLS.sub(lambda found: _named(found[0]), text)
    return _unseen().sub(lambda found: _shown(found, text), text)


def is_blank(text: str) -> bool:
    """Return whether a text shows nothing: blanks, and invisible characters."""
    return _seen().search(text) is None


def visible_for_editing(text: str) -> tuple[str, list[str]]:
    """Like `visible`, with a number in place of each text that looks like a secret; also return these texts."""
    parts: list[str] = []
    secrets: list[str] = []
    at = 0
    for start, end in secret_spans(text):
        secrets.append(text[start:end])
        parts += (visible(text[at:start]), f"⟨secret {len(secrets)}⟩")
        at = end
    return "".join([*parts, visible(text[at:])]), secrets


def original(text: str, secrets: Sequence[str] = ()) -> str:
    """Restore the text from its visible form; unknown marks stay as they are."""

    def character(found: re.Match[str]) -> str:
        if found[1] and int(found[1], 16) < 0x110000:
            return chr(int(found[1], 16))
        if found[3] and 0 < int(found[3]) <= len(secrets):
            return secrets[int(found[3]) - 1]
        return _BY_NAME.get(found[2] or "", found[0])

    return _MARK.sub(character, text)


@cache
def _unseen() -> re.Pattern[str]:
    """Control, format, separator, private-use, surrogate and default-ignorable characters."""
    return unicode_pattern(r"[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}⟨--[\n\t]]")


@cache
def _seen() -> re.Pattern[str]:
    """Any character that is seen; the blank of Braille is none."""
    return unicode_pattern(r"[^\s\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]")


def _shown(found: re.Match[str], text: str) -> str:
    """Keep joiners and variation selectors within an emoji; replace any other character by its name."""
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
