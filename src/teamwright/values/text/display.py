"""Texts and numbers as people are shown them: one way of cutting and counting, wherever they are told."""

ELLIPSIS = "…"
NOTHING = "–"
"""Where a table has no value."""


LONGEST_NAME = 100
LONGEST_ERROR = 4000
"""How much of an error's text is recorded, since it stands in the ending of everything that it ends. It is cut when no
secret is left in it: half of one would not be found."""


def cut(text: str, most: int, mark: str = ELLIPSIS) -> str:
    """A text of at most so many characters, the last of which are the mark where it was cut."""
    # No blank is trimmed before the ellipsis: a text of blanks would come out shorter than it may be.
    return text if len(text) <= most else text[: most - len(mark)] + mark


def name_text(name: str) -> str:
    """A name as a message quotes it. One that is too long to be a name is cut, since many messages may repeat it."""
    return repr(cut(name, LONGEST_NAME))


def error_text(error: BaseException) -> str:
    """What went wrong and how it is called, whatever the error's own text does."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a text that can't be had is no reason to lose the error
        text = "it has no text"
    return f"{type(error).__name__}: {text}"


def number_text(count: int) -> str:
    """A whole number, with gaps for thousands."""
    return f"{count:,}".replace(",", " ")


def count_text(count: int, word: str) -> str:
    """A number with its noun: 1 token, 2 tokens, 12 345 tokens."""
    return f"{number_text(count)} {word}{'' if count == 1 else 's'}"
