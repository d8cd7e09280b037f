"""Reads plain YAML fast, without positions.

It reports no mistakes: the reader with positions reads again whatever this one does not accept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from teamwright.documents.nodes import UNPRINTABLE, resolve
from teamwright.documents.reader import MAX_DEPTH, ReadLimits, parse_events

if TYPE_CHECKING:
    import yaml

MERGE = "<<"


class _Unusual(Exception):
    """The text uses something that only the reader with positions handles."""


def read_fast(text: str, limits: ReadLimits) -> JsonValue | None:
    """Return the only document of a text, or None if the reader with positions has to read it."""
    import yaml

    try:
        found = _FastComposer(limits).compose(parse_events(text))
    except (_Unusual, yaml.YAMLError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


class _FastComposer:
    """Composes parser events into data. The stack holds each open mapping with the key of its next value."""

    def __init__(self, limits: ReadLimits) -> None:
        self._most = limits.nodes
        self._known: dict[str, JsonValue] = {}
        self._stack: list[tuple[Any, str | None]] = []

    def compose(self, events: Iterable[yaml.Event]) -> list[JsonValue]:
        """Return the documents of a text without aliases, tags, merges and keys that are not text."""
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
