"""Masks what looks like a secret in pieces of replies, also where a piece ends within it."""

from __future__ import annotations

from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event
from teamwright.values.secrets.patterns import MaskedStream

Part = tuple[str, int, int]


class MaskedDeltas:
    """The parts that are being written in one run. The last word of a part is held back until the next piece."""

    def __init__(self) -> None:
        self._streams: dict[str, dict[Part, tuple[MaskedStream, int]]] = {}

    def masked(self, delta: AnyDelta) -> AnyDelta | None:
        """Return a piece with secrets masked, at its place in the masked part; `None` if all of it is held back."""
        part = (delta.kind, delta.attempt, delta.call if isinstance(delta, ArgumentsDelta) else 0)
        parts = self._streams.setdefault(delta.key, {})
        if delta.offset == 0:
            parts[part] = MaskedStream(), 0
        stream, length = parts.get(part) or (MaskedStream(), delta.offset)
        shown = stream.feed(delta.text)
        parts[part] = stream, length + len(shown)
        return delta.changed(text=shown, offset=length) if shown else None

    def end(self, event: Event) -> None:
        """Forget the parts of a turn when its record replaces them."""
        self._streams.pop(event.key, None)
