"""The workload of every contender: the same task, and members that reply at once with a known text.

Texts are distinct and look like prose, so that nothing is won by storing one body once or by squeezing repetitions.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

TASK = "Write the next part of the report."
CHARACTERS = 500

_SYLLABLES = [
    consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in ("a", "e", "i", "o", "u", "an", "er", "ost")
]


Database = Path | str | None
"""Where a contender stores its turns: a file, a database of a Postgres server, or nowhere."""
Steps = Mapping[str, Sequence[str]]
"""A graph: each step with the steps it needs, in topological order."""

LAYER, NEEDED = 20, 3
SLOW_SECONDS, QUICK_SECONDS, UNEVEN_STEPS = 0.02, 0.002, 10
UNEVEN_CRITICAL_PATH = UNEVEN_STEPS // 2 * (SLOW_SECONDS + QUICK_SECONDS)


class WrongAnswer(Exception):
    """A contender did not do the work, so its time is meaningless."""


def texts(count: int) -> list[str]:
    """The replies of members 0 to count - 1, created in advance, so that no contender is charged for it."""
    return [_text(index) for index in range(count)]


def check(said: Sequence[str], expected: Sequence[str], *, ordered: bool = True) -> None:
    """Reject a run that lost, changed or reordered a reply."""
    if (list(said) if ordered else sorted(said)) != (list(expected) if ordered else sorted(expected)):
        raise WrongAnswer(f"{len(expected)} replies were expected in order, and {len(said)} came back or differ")


def graph(shape: str, size: int) -> Steps:
    """Return the graph of this shape with this many steps."""
    return GRAPHS[shape](size)


def _wide(size: int) -> Steps:
    """One step, then all others but one concurrently, then one that needs them all."""
    middle = {f"s{number}": ["s0"] for number in range(1, size - 1)}
    return {"s0": [], **middle, f"s{size - 1}": list(middle)}


def _diamond(size: int) -> Steps:
    """Two concurrent steps, then one that needs both, repeatedly."""
    made: dict[str, Sequence[str]] = {"s0": []}
    for number in range(1, size):
        before = number - number % 3 if number % 3 else number - 3
        made[f"s{number}"] = [f"s{before}"] if number % 3 else [f"s{before + 1}", f"s{before + 2}"]
    return made


def _layered(size: int) -> Steps:
    """Layers of steps, each of which needs three of the previous layer."""
    return {
        f"s{number}": [
            f"s{number - number % LAYER - LAYER + (number + other) % LAYER}"
            for other in range(NEEDED if number >= LAYER else 0)
        ]
        for number in range(size)
    }


GRAPHS: Mapping[str, Callable[[int], Steps]] = {"wide": _wide, "diamond": _diamond, "layered": _layered}


def uneven() -> tuple[Steps, Mapping[str, float]]:
    """Two independent chains of steps, with a slow step of one beside a fast step of the other."""
    steps = {
        f"{line}{number}": [f"{line}{number - 1}"] if number else [] for number in range(UNEVEN_STEPS) for line in "ab"
    }
    slow = {step: (int(step[1:]) + (step[0] == "b")) % 2 == 0 for step in steps}
    return steps, {step: SLOW_SECONDS if slow[step] else QUICK_SECONDS for step in steps}


def _text(index: int) -> str:
    chance = random.Random(index)
    words = ("".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(CHARACTERS // 3))
    return f"Part {index}: {' '.join(words)}"[:CHARACTERS]
