"""The bound of a simulated run: a team may be allowed a billion turns, and members may reply with gigabytes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from teamwright.errors import UsageError

MOST_TURNS = 50_000
MOST_CHARACTERS = 4_000_000_000
"""The total input of all members: every turn of a long conversation receives all of it again."""


@dataclass(slots=True)
class RunBound:
    """Counts the turns and the input characters of one run, and stops the run when either is too large."""

    stop: Callable[[], None] | None = None
    turns: int = 0
    characters: int = 0

    @property
    def is_passed(self) -> bool:
        """Whether the run is longer than a simulation may be."""
        return self.turns > MOST_TURNS or self.characters > MOST_CHARACTERS

    def count(self, characters: int) -> None:
        """Count one turn with so many characters of input."""
        self.turns += 1
        self.characters += characters
        if self.is_passed and self.stop is not None:
            self.stop()

    def check(self) -> None:
        if self.is_passed:
            raise UsageError(
                f"A simulated run was stopped after {self.turns} turns with {self.characters} characters of input; the"
                f" maximum is {MOST_TURNS} turns and {MOST_CHARACTERS} characters. Lower max_turns, or set a limit with"
                " --max-calls."
            )


_BOUND: ContextVar[RunBound | None] = ContextVar("teamwright_simulated_run", default=None)


@contextmanager
def bounded_run() -> Generator[RunBound]:
    """Count the turns of all simulated members within the block against one bound."""
    bound = RunBound()
    before = _BOUND.set(bound)
    try:
        yield bound
    finally:
        _BOUND.reset(before)


def count_turn(characters: int) -> None:
    """Count a turn of the enclosing simulated run, if there is one."""
    if (bound := _BOUND.get()) is not None:
        bound.count(characters)
