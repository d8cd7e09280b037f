"""The nodes of a YAML document with their places, scalars by the core schema of YAML 1.2, and problems found in it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from pydantic import JsonValue

from teamwright.errors import Problem, UsageError, nearest
from teamwright.values.text.display import cut


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file; lines and columns count from 1, and 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number, boolean or null; `raw` is its spelling in the file."""

    value: str | int | float | bool | None
    place: Place
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping in the spelling of the file, its place, and its value."""

    key: str
    place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping; in a translated document its keys are ours, and each entry keeps the spelling of the file."""

    entries: Mapping[str, Entry]
    place: Place

    def get(self, *path: str) -> Node | None:
        """The value at `path`, or None if any step is missing or is not a mapping."""
        node: Node = self
        for key in path:
            if not isinstance(node, Fields) or key not in node.entries:
                return None
            node = node.entries[key].node
        return node

    def text(self, *path: str) -> Scalar | None:
        """The text at `path`; anything that is not text counts as missing."""
        node = self.get(*path)
        return node if isinstance(node, Scalar) and isinstance(node.value, str) else None

    def texts(self, *path: str) -> Iterator[tuple[str, Place]]:
        """The texts in the list at `path`, with their places."""
        node = self.get(*path)
        if isinstance(node, Items):
            for item in node.items:
                if isinstance(item, Scalar) and isinstance(item.value, str):
                    yield item.value, item.place

    def has(self, key: str) -> bool:
        """Whether `key` exists with a value."""
        node = self.get(key)
        return node is not None and not is_nothing(node)

    def key_place(self, key: str) -> Place:
        """The place of `key`, or of the mapping if it has no such key."""
        return self.entries[key].place if key in self.entries else self.place

    def without(self, key: str) -> Fields:
        """A copy of this mapping without `key`."""
        return Fields({name: entry for name, entry in self.entries.items() if name != key}, self.place)

    def with_value(self, key: str, node: Node) -> Fields:
        """A copy of this mapping in which `key` has this value."""
        entry = self.entries.get(key)
        changed = replace(entry, node=node) if entry else Entry(key, node.place, node)
        return Fields({**self.entries, key: changed}, self.place)


Node = Scalar | Items | Fields


def is_nothing(node: Node) -> bool:
    """Whether a key was written without a value."""
    return isinstance(node, Scalar) and node.value is None


def plain(node: Node) -> JsonValue:
    """The data of a node without positions."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(item) for item in node.items]
        case Fields():
            return {key: plain(entry.node) for key, entry in node.entries.items()}


def place_at(node: Node, path: Iterable[str | int], name: str | None = None) -> Place:
    """The place of the value at `path`, or of the innermost value around it if it is missing.

    With a `name`, it is the place of the key if the value is not that name.
    """
    key: Place | None = None
    for step in path:
        if isinstance(node, Fields) and step in node.entries:
            entry = node.entries[str(step)]
            node, key = entry.node, entry.place
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node, key = node.items[step], None
    if name is not None and key is not None and not (isinstance(node, Scalar) and node.value == name):
        return key
    return node.place


def shown(text: str, longest: int = 60) -> str:
    """A text quoted for a message, cut if it is long."""
    return repr(cut(text, longest))


def described(node: Node) -> str:
    """The kind of a value, as text for a message."""
    match node:
        case Items():
            return "a list"
        case Fields():
            return "a mapping"
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=bool() as value):
            return "true" if value else "false"
        case Scalar(value=str() as value):
            return f"the text {shown(value)}"
        case Scalar():
            return f"the number {node.raw or node.value}"


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


TAG = "tag:yaml.org,2002:"
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
LARGEST = 1 << 63

ScalarValue = str | int | float | bool | None


def resolve(text: str, tag: str | None, *, plainly: bool) -> tuple[ScalarValue, str]:
    """Return the value of a scalar, and a message if it has none."""
    if tag in {None, "!"}:
        return _plain_value(text) if plainly and tag is None else (text, "")
    kind = str(tag).removeprefix(TAG)
    if kind == "str":
        return text, ""
    expected = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}.get(kind)
    if expected is None:
        return text, f"The tag {shown(str(tag))} is not supported: remove it"
    value, mistake = _plain_value(text)
    if mistake or type(value) not in expected:
        return text, mistake or f"{shown(text)} does not match its tag !!{kind}"
    return value, ""


def _plain_value(text: str) -> tuple[ScalarValue, str]:
    if text in WORDS:
        return WORDS[text], ""
    if INTEGER.fullmatch(text):
        return _integer(text)
    if FLOAT.fullmatch(text):
        number = float(text)
        return (number, "") if math.isfinite(number) else (text, f"The number {shown(text)} is too large")
    if NOT_FINITE.fullmatch(text):
        return text, f"{text} is not a finite number"
    return text, ""


def _integer(text: str) -> tuple[ScalarValue, str]:
    # Python rejects very long numbers, and no record needs more than 64 bits.
    if len(text) <= 24:
        number = int(text, 0)
        if -LARGEST <= number < LARGEST:
            return number, ""
    return text, f"The number {shown(text)} is too large"
