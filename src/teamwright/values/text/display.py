"""Formats texts and numbers for people: one way to truncate and count everywhere, and to read a duration."""

import re

ELLIPSIS = "…"
NOTHING = "–"
"""An empty cell of a table."""


LONGEST_NAME = 100
LONGEST_ERROR = 4000
"""The most characters of an error's text that are recorded, since every ending that it causes repeats it. The text is
truncated after secrets are masked: half a secret would not be recognised."""


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


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


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
