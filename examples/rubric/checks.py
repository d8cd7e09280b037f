"""A check of a rubric: a function that gets the text, and returns a score from 0 to 1 and the reason."""

from __future__ import annotations

ADVERTISING = ("blazing", "exciting", "revolutionary", "seamless", "simply")


def no_advertising(text: str) -> tuple[float, str]:
    """Give a lower score for each word that sells instead of informing."""
    found = [word for word in ADVERTISING if word in text.lower()]
    return 1 / (1 + len(found)), f"leave out: {', '.join(found)}"
