"""A run as lines of JSON on stdout: events when they are durable, and pieces of responses when they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.cli.terminal.output import write_json_line
from teamwright.cli.text.tool_calls import ToolCalls, event_texts, folded_texts
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event
from teamwright.values.secrets.patterns import MaskedStream

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal


class EventLines:
    """Prints events and deltas, and nothing else.

    The events of tool calls have `texts`, their arguments and results, folded; with `full`, every event has its texts,
    whole.
    """

    def __init__(self, journal: Journal, *, full: bool = False) -> None:
        self._journal, self._full = journal, full
        self._calls = ToolCalls()
        self._parts: dict[tuple[str, int], DeltaLines] = {}

    def catch_up(self, event: Event) -> None:
        """Apply an event without printing it."""
        self._calls.apply(event)

    async def show(self, item: Event | AnyDelta) -> None:
        """Print an event or a delta."""
        if not isinstance(item, Event):
            self._show_delta(item)
            return
        for key in [key for key in self._parts if key[0] == item.scope]:  # the response is complete, or has failed
            self._parts.pop(key).finish()
        line = item.to_json()
        if (self._full or self._calls.is_about(item)) and (
            texts := (await event_texts(self._journal, item))[item.number]
        ):
            line["texts"] = texts if self._full else folded_texts(texts)
        self._calls.apply(item)
        write_json_line(line)

    def close(self) -> None:
        """Do nothing: every line is complete."""

    def _show_delta(self, delta: AnyDelta) -> None:
        call = delta.call if isinstance(delta, ArgumentsDelta) else 0
        part = delta.key, {"delta.text": 0, "delta.thinking": -1}.get(delta.kind, call)
        if delta.offset == 0:
            self._parts[part] = DeltaLines()
        if part in self._parts:  # a part is masked from its beginning, or not shown
            self._parts[part].add(delta)


class DeltaLines:
    """The lines of one part of a response. A word that may be a secret is held back until it is complete."""

    def __init__(self) -> None:
        self._masked, self._offset = MaskedStream(), 0
        self._last: AnyDelta | None = None

    def add(self, delta: AnyDelta) -> None:
        """Print the next piece, as far as it is known to be no secret."""
        self._last = delta
        self._print(delta, self._masked.feed(delta.text))

    def finish(self) -> None:
        """Print what was held back."""
        if self._last is not None:
            self._print(self._last, self._masked.flush())

    def _print(self, delta: AnyDelta, text: str) -> None:
        if text:
            write_json_line(_line(delta, text, self._offset))
            self._offset += len(text)


def _line(delta: AnyDelta, text: str, offset: int) -> dict[str, JsonValue]:
    head: dict[str, JsonValue] = {"domain": "delta", "kind": delta.kind}
    return {"run_id": delta.run_id, **head, **delta.to_json(), "text": text, "offset": offset}
