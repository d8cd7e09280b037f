"""Bounds one simulated run: a team that may take a billion turns would be simulated for ever."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from teamwright.errors import UsageError

MOST_TURNS = 50_000
MOST_CHARACTERS = 4_000_000_000
"""What all members of a run are told together: each turn of a long conversation is told all of it again."""


@dataclass(slots=True)
class RunBound:
    """Counts the turns of one run and what members are told, and stops the run when either is too much."""

    stop: Callable[[], None] | None = None
    turns: int = 0
    characters: int = 0

    @property
    def is_passed(self) -> bool:
        """Whether the run is longer than a simulation may be."""
        return self.turns > MOST_TURNS or self.characters > MOST_CHARACTERS

    def count(self, characters: int) -> None:
        """Count one turn of a member that is told so much."""
        self.turns += 1
        self.characters += characters
        if self.is_passed and self.stop is not None:
            self.stop()

    def check(self) -> None:
        """Raise if the run was stopped."""
        if self.is_passed:
            raise UsageError(
                f"A simulated run was stopped after {self.turns} turns, in which members were told {self.characters}"
                f" characters: {MOST_TURNS} turns and {MOST_CHARACTERS} characters are possible. Lower max_turns, or"
                " set a limit with --max-calls."
            )


_BOUND: ContextVar[RunBound | None] = ContextVar("teamwright_simulated_run", default=None)


@contextmanager
def bounded_run() -> Generator[RunBound]:
    """Within this block, simulated members count against one bound."""
    bound = RunBound()
    before = _BOUND.set(bound)
    try:
        yield bound
    finally:
        _BOUND.reset(before)


def count_turn(characters: int) -> None:
    """Count a turn of the simulated run around, if there is one."""
    if (bound := _BOUND.get()) is not None:
        bound.count(characters)
