"""Reads YAML with nothing unusual in it, fast and without positions.

It never tells a mistake: whatever it does not take, the reader with positions reads again and explains.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from teamwright.documents.reader import MAX_DEPTH, Room, events_of
from teamwright.documents.scalars import UNPRINTABLE, resolve

if TYPE_CHECKING:
    import yaml

MERGE = "<<"


class _Unusual(Exception):
    """Something that takes more care."""


def read_quickly(text: str, room: Room) -> JsonValue | None:
    """The one document of a text, as the careful reader would read it, or None if that has to look."""
    import yaml

    try:
        found = _FastComposer(room).composed(events_of(text))
    except (_Unusual, yaml.YAMLError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


class _FastComposer:
    """Puts parser events together. A mapping stands on the stack with the key whose value comes next."""

    def __init__(self, room: Room) -> None:
        self._most = room.nodes
        self._known: dict[str, JsonValue] = {}
        self._stack: list[tuple[Any, str | None]] = []

    def composed(self, events: Iterable[yaml.Event]) -> list[JsonValue]:
        """The documents of a text that has no aliases, tags, merges or keys that are no text."""
        import yaml

        documents: list[JsonValue] = []
        into: Any = documents
        key: str | None = None
        for number, event in enumerate(events):
            if number > self._most:
                raise _Unusual
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                value = self._scalar(cast("yaml.ScalarEvent", event))
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                value = self._started(cast("yaml.CollectionStartEvent", event), into, key)
                into, key = value, None
                continue
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                value = into
                into, key = self._stack.pop()
            elif kind is yaml.AliasEvent:
                raise _Unusual
            else:
                continue
            if into.__class__ is list:
                into.append(value)
            elif key is None:
                key = self._key(value, cast("yaml.ScalarEvent", event), into)
            else:
                into[key] = value
                key = None
        return documents

    def _scalar(self, event: yaml.ScalarEvent) -> JsonValue:
        text = event.value
        plainly = event.implicit[0]
        if event.tag is not None or event.anchor is not None:
            raise _Unusual
        if not plainly:
            if UNPRINTABLE.search(text):
                raise _Unusual
            return text
        if text in self._known:
            return self._known[text]
        value, mistake = resolve(text, None, plainly=True)
        if mistake:
            raise _Unusual
        self._known[text] = value
        return value

    def _started(self, event: yaml.CollectionStartEvent, into: object, key: str | None) -> list[Any] | dict[str, Any]:
        import yaml

        is_key = into.__class__ is dict and key is None
        if is_key or event.tag is not None or event.anchor is not None or len(self._stack) + 1 >= MAX_DEPTH:
            raise _Unusual
        self._stack.append((into, key))
        return {} if isinstance(event, yaml.MappingStartEvent) else []

    def _key(self, value: JsonValue, event: yaml.ScalarEvent, into: dict[str, JsonValue]) -> str:
        if not isinstance(value, str) or value in into or (value == MERGE and event.implicit[0]):
            raise _Unusual
        return value
