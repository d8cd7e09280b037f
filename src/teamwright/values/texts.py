"""Texts that have to be short: one way of cutting them, wherever they are told or shown."""

ELLIPSIS = "…"


def cut(text: str, most: int) -> str:
    """A text that is no longer than so many characters, of which the last is an ellipsis where it was cut."""
    # No blank is trimmed before the ellipsis: a text of blanks would come out shorter than it may be.
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS
