"""Templates of experts by name: built-in ones, those of folders, and those that a program registers.

There is no global registry: create one where you need it. A file is read when its template is first used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from teamwright.documents.nodes import Place, ProblemReport, sort_problems
from teamwright.errors import ManifestError, Problem, UnknownName, UsageError
from teamwright.experts.profiles.template import ExpertTemplate, read_template

BUILT_IN = Path(__file__).parent / "built_in"
FOLDER = "experts"
"""The folder beside a manifest whose YAML files are its templates."""
SUFFIXES = {".yaml", ".yml"}
WORD = re.compile(r"[^\W_]+")
COMMON = frozenset(
    WORD.findall(
        "a an and are as at be but by can do for from how in into is it its of on or our that the their they this to us"
        " we what which who will with you your"
    )
)
"""Words that say nothing about a task."""


class ExpertTemplates:
    """Templates by name. One that is registered or loaded later replaces one of the same name."""

    def __init__(self, *folders: Path | str, built_in: bool = True) -> None:
        self._known: dict[str, ExpertTemplate | Path] = {}
        if built_in:
            self._known |= _files(BUILT_IN)
        for folder in folders:
            self.load(folder)

    def register(self, template: ExpertTemplate) -> ExpertTemplate:
        """Add a template and return it."""
        if not isinstance(template, ExpertTemplate):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
            raise UsageError(f"Only an ExpertTemplate can be registered, not {template!r:.100}.")
        self._known[template.name] = template
        return template

    def load(self, folder: Path | str) -> list[str]:
        """Add every YAML file of a folder as a template of the file's name, and return the names."""
        try:
            found = _files(Path(folder))
        except OSError as error:
            raise UsageError(f"The folder {str(folder)!r} can't be read: {error.strerror}.") from error
        self._known |= found
        return list(found)

    def names(self) -> list[str]:
        """Return the names of all templates, sorted, without reading them."""
        return sorted(self._known)

    def get(self, name: str) -> ExpertTemplate:
        """Return the template of this name; raises `UnknownName`, or `ManifestError` with the mistakes in its file."""
        report = ProblemReport()
        found = self.find(name, report)
        if found is None:
            if report.problems:
                raise ManifestError(report.problems)
            raise UnknownName("expert template", name, self._known)
        return found

    def find(self, name: str, report: ProblemReport) -> ExpertTemplate | None:
        """Return the template of this name; `None` if there is none, or if a mistake in its file was reported."""
        known = self._known.get(name)
        if not isinstance(known, Path):
            return known
        made = read_template(known, report, built_in=known.parent == BUILT_IN)
        if made is not None:
            self._known[name] = made
        return made

    def list(self) -> tuple[ExpertTemplate, ...]:
        """Return all templates, sorted by name; raises `ManifestError` with every mistake in their files."""
        found, problems = self.list_readable()
        if problems:
            raise ManifestError(problems)
        return found

    def list_readable(self) -> tuple[tuple[ExpertTemplate, ...], tuple[Problem, ...]]:
        """Return the templates that can be read, sorted by name, and every mistake in the files of the others."""
        report = ProblemReport()
        found = [self.find(name, report) for name in self.names()]
        return tuple(one for one in found if one is not None), tuple(sort_problems(report.problems, ()))

    def search(self, query: str) -> tuple[ExpertTemplate, ...]:
        """Return the templates that fit the words of a query, the best first; those with mistakes are left out.

        A word in the name counts most, then one among the capabilities, then one in the description.
        """
        wanted = words_of(query)
        scored = [(_score(one, wanted), one) for one in self.list_readable()[0]]
        found = [pair for pair in scored if pair[0]]
        return tuple(one for _, one in sorted(found, key=lambda pair: (-pair[0], pair[1].name)))

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __len__(self) -> int:
        return len(self._known)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text without case, without the plural's s, and without those that say nothing."""
    return frozenset(_stem(word.casefold()) for word in WORD.findall(text)) - COMMON


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _score(template: ExpertTemplate, wanted: Iterable[str]) -> int:
    name = words_of(template.name)
    capabilities = words_of(" ".join(template.agent.capabilities))
    described = words_of(template.description)
    return sum(8 * (word in name) + 3 * (word in capabilities) + (word in described) for word in wanted)


def _files(folder: Path) -> dict[str, ExpertTemplate | Path]:
    return {
        path.stem: path
        for path in sorted(folder.iterdir())
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file()
    }


def templates_beside(base: Path, report: ProblemReport) -> ExpertTemplates:
    """Return the built-in templates and those of the folder `experts` in `base`."""
    found = ExpertTemplates()
    folder = base / FOLDER
    try:
        if folder.is_dir():
            found.load(folder)
    except UsageError as error:
        report.problem(Place(str(folder)), str(error))
    return found
