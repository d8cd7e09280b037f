"""Collects every mistake and every warning of one load, so that the user sees them all at once. It never raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from teamwright.documents.nodes import Place
from teamwright.errors import Problem, nearest

COMPARISONS = 20_000


@dataclass(slots=True)
class ProblemReport:
    """What was found so far. `incomplete` is set when a file could not be read, so that a missing name means little."""

    problems: list[Problem] = field(default_factory=list[Problem])
    warnings: list[Problem] = field(default_factory=list[Problem])
    incomplete: bool = False
    compared: int = 0

    def problem(self, place: Place, message: str, suggestion: str = "") -> None:
        """Note a mistake."""
        self._note(self.problems, place, message, suggestion)

    def warning(self, place: Place, message: str, suggestion: str = "") -> None:
        """Note what the user should know and that stops nothing."""
        self._note(self.warnings, place, message, suggestion)

    def near(self, name: str, known: Iterable[str] | Callable[[], Iterable[str]], otherwise: str = "") -> str:
        """The nearest names; after many comparisons none are sought, so that thousands of mistakes stay quick.

        Where gathering the known names takes as long as there are many, give a function that does it.
        """
        if self.compared > COMPARISONS:
            return ""
        names = set(known() if callable(known) else known)
        self.compared += len(names)
        return nearest(name[:100], names, otherwise).removesuffix(".") if self.compared <= COMPARISONS else ""

    @staticmethod
    def _note(notes: list[Problem], place: Place, message: str, suggestion: str) -> None:
        notes.append(Problem(message, place.file, place.line, place.column, suggestion))


def in_order(problems: Iterable[Problem], files: Iterable[str]) -> tuple[Problem, ...]:
    """Each problem once, in the order of the files and lines."""
    rank = {file: number for number, file in enumerate(files)}
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (rank.get(one.file, -1), one.line, one.column)))
