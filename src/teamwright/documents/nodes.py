"""The nodes that the reader builds from YAML: plain data with positions. They know nothing about teams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

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
