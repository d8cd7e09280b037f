"""Collects every problem and warning of one load, so that the user sees them all at once. It never raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from teamwright.documents.nodes import Place
from teamwright.errors import Problem, UsageError, nearest

P = ParamSpec("P")
T = TypeVar("T")

COMPARISONS = 20_000


@dataclass(slots=True)
class ProblemReport:
    """The problems found so far. `incomplete` is set if a file could not be read: a name may be declared in it."""

    problems: list[Problem] = field(default_factory=list[Problem])
    warnings: list[Problem] = field(default_factory=list[Problem])
    incomplete: bool = False
    compared: int = 0

    def problem(self, place: Place, message: str, suggestion: str = "") -> None:
        """Add a problem, which makes the load fail."""
        self._note(self.problems, place, message, suggestion)

    def warning(self, place: Place, message: str, suggestion: str = "") -> None:
        """Add a warning, which does not make the load fail."""
        self._note(self.warnings, place, message, suggestion)

    def collect(self, place: Place, owner: str, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a function and return its result; if it raises `UsageError`, add that as a problem and return `None`."""
        try:
            return check(*args, **kwargs)
        except UsageError as error:
            for reason in error.reasons or (str(error),):
                self.problem(place, f"{owner}: {reason}")
            return None

    def near(self, name: str, known: Iterable[str] | Callable[[], Iterable[str]], otherwise: str = "") -> str:
        """Suggest the nearest known names; after many comparisons none, so that thousands of mistakes stay fast.

        Pass a function if collecting the known names is slow.
        """
        if self.compared > COMPARISONS:
            return ""
        names = set(known() if callable(known) else known)
        self.compared += len(names)
        return nearest(name[:100], names, otherwise).removesuffix(".") if self.compared <= COMPARISONS else ""

    @staticmethod
    def _note(notes: list[Problem], place: Place, message: str, suggestion: str) -> None:
        notes.append(Problem(message, place.file, place.line, place.column, suggestion))


def sort_problems(problems: Iterable[Problem], files: Iterable[str]) -> tuple[Problem, ...]:
    """Sort problems by file and line, without duplicates."""
    rank = {file: number for number, file in enumerate(files)}
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (rank.get(one.file, -1), one.line, one.column)))
