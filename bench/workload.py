"""What every contender is given to do: the same task, and members that answer at once with a known text.

Texts are distinct and look like prose, so that nothing is won by storing one body once or by squeezing repetitions.
"""

import random
from collections.abc import Sequence

TASK = "Write the next part of the report."
CHARACTERS = 500

_SYLLABLES = [
    consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in ("a", "e", "i", "o", "u", "an", "er", "ost")
]


class WrongAnswer(Exception):
    """A contender did not do the work, so its time means nothing."""


def texts(count: int) -> list[str]:
    """The replies of members 0 to count - 1, made ahead so that making them is in nobody's time."""
    return [_text(index) for index in range(count)]


def check(said: Sequence[str], expected: Sequence[str]) -> None:
    """Refuse a run that lost, changed or reordered a reply."""
    if list(said) != list(expected):
        raise WrongAnswer(f"{len(expected)} replies were expected in order, and {len(said)} came back or differ")


def _text(index: int) -> str:
    chance = random.Random(index)
    words = ("".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(CHARACTERS // 3))
    return f"Part {index}: {' '.join(words)}"[:CHARACTERS]
