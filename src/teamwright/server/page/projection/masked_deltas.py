"""Masks what looks like a secret in pieces of replies, also where a piece ends within it.

A part is masked as one text, from its beginning. A piece whose beginning is not known is never shown: it could be the
inside of a secret.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from teamwright.values.events.agent import AgentAbandoned, AgentCallFailed, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event
from teamwright.values.secrets.patterns import MaskedStream

Part = tuple[str, int]
ENDINGS = (AgentReturned, AgentCallFailed, AgentReplied, AgentFailed, AgentAbandoned)
"""What replaces the pieces of a turn."""


@dataclass(slots=True)
class _MaskedPart:
    """One part of a response: what began it, and what is shown of it."""

    first: AnyDelta
    stream: MaskedStream = field(default_factory=MaskedStream)
    shown: list[str] = field(default_factory=list[str])
    length: int = 0


class MaskedDeltas:
    """The parts that are being written in one run. The last word of a part is held back until the next piece."""

    def __init__(self) -> None:
        self._turns: dict[str, dict[Part, _MaskedPart]] = {}

    def masked(self, delta: AnyDelta) -> AnyDelta | None:
        """Return a piece with secrets masked, at its place in the masked part; `None` if nothing of it is shown."""
        place = delta.kind, delta.call if isinstance(delta, ArgumentsDelta) else 0
        parts = self._turns.setdefault(delta.key, {})
        if delta.offset == 0:
            parts[place] = _MaskedPart(delta)
        part = parts.get(place)
        if part is None or part.first.attempt != delta.attempt:
            return None
        shown, offset = part.stream.feed(delta.text), part.length
        if not shown:
            return None
        part.shown.append(shown)
        part.length += len(shown)
        return delta.changed(text=shown, offset=offset)

    def written(self) -> list[AnyDelta]:
        """Return what is shown so far of each part, as one piece that begins it."""
        found: list[AnyDelta] = []
        for part in (one for parts in self._turns.values() for one in parts.values() if one.shown):
            part.shown = ["".join(part.shown)]
            found.append(part.first.changed(text=part.shown[0], offset=0))
        return found

    def end(self, event: Event) -> None:
        """Forget the parts of a turn when its record replaces them."""
        if isinstance(event.fact, ENDINGS):
            self._turns.pop(event.scope, None)
            self._turns.pop(event.key, None)
