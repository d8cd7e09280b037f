"""Formats texts and numbers for people: one way to truncate and count everywhere.

Where a person decides, no control or format character is dropped: each is shown by its name, as `⟨ESC⟩` or `⟨U+202E⟩`,
and `original` restores the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from teamwright.values.text.secrets import secret_spans
from teamwright.values.text.timed_regex import unicode_pattern

ELLIPSIS = "…"
NOTHING = "–"
"""An empty cell of a table."""
LONGEST_NAME = 100
LONGEST_ERROR = 4000
"""The most characters of an error's text that are recorded, since every ending that it causes repeats it. The text is
truncated after secrets are masked: half a secret would not be recognised."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_NAMES = {0: "NUL", 7: "BEL", 8: "BS", 11: "VT", 12: "FF", 13: "CR", 27: "ESC", 127: "DEL", 0x27E8: "U+27E8"}
_BY_NAME = {name: chr(code) for code, name in _NAMES.items()}
_ASCII_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_MARK = re.compile(r"⟨(?:U\+([0-9A-F]{4,6})|([A-Z]{2,3})|secret ([0-9]{1,6}))⟩")
_JOINER = "\u200d"
_STYLES = ("\ufe0f", "\ufe0e")


def cut(text: str, most: int, mark: str = ELLIPSIS) -> str:
    """Truncate a text to `most` characters, including the mark."""
    # No blank is trimmed before the ellipsis: a text of blanks would become too short.
    return text if len(text) <= most else text[: most - len(mark)] + mark


def name_text(name: str) -> str:
    """Quote a name for a message, truncated, since many messages may repeat it."""
    return repr(cut(name, LONGEST_NAME))


def error_text(error: BaseException) -> str:
    """Return the type and text of an error, even if its `__str__` raises."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken `__str__` must not hide the error
        text = "it has no text"
    return f"{type(error).__name__}: {text}"


def number_text(count: int) -> str:
    """Format a whole number with blanks between thousands."""
    return f"{count:,}".replace(",", " ")


def size_text(size: float) -> str:
    """Format a number of bytes: 512 B, 1.5 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit takes everything")


def count_text(count: int, word: str) -> str:
    """Format a number with its noun: 1 token, 2 tokens, 12 345 tokens."""
    return f"{number_text(count)} {word}{'' if count == 1 else 's'}"


def seconds_text(seconds: float) -> str:
    """A duration: 0.4 s, 12.3 s, 2 min 5 s, 1 h 4 min; a negative one, after a clock change, counts as zero."""
    seconds = max(0.0, seconds)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def seconds_in(text: str) -> float | None:
    """Return the seconds of a duration such as 90s, 30m, 12h, 7d or 4w; `None` if the text is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    return None if found is None else float(found[1]) * _UNITS[found[2]]


def minute_text(time: float) -> str:
    """A time, given in seconds since 1970: 2026-12-01 07:00 UTC."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(round(time), UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "a time that no calendar has"


def price_text(usd: float | None, *, free: bool = False) -> str:
    """A price, or "no price known"; an empty text if usage without a price was `free`."""
    if usd is None:
        return "" if free else "no price known"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}"


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
