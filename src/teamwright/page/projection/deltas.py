"""Pieces of replies that models are writing, for a page: masked word by word, with offsets of what is shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from teamwright.page.page_events import DeltaPart, PageDelta
from teamwright.page.projection.stage import Stage
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, ThinkingDelta
from teamwright.values.secrets.patterns import MaskedStream


@dataclass(slots=True)
class _Stream:
    """One part of a response; `shown` counts the characters that were passed on."""

    part: tuple[DeltaPart, int]
    masked: MaskedStream = field(default_factory=MaskedStream)
    shown: int = 0


class DeltaStreams:
    """The part that each open turn is writing now."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._streams: dict[str, _Stream] = {}

    def project(self, piece: AnyDelta) -> PageDelta | None:
        """Return what a piece adds to the page; `None` where it is held back, or its turn is over."""
        ask = self._stage.ask_around(piece.key)
        if ask is None:
            return None
        is_call = isinstance(piece, ArgumentsDelta)
        part: DeltaPart = "arguments" if is_call else "thinking" if isinstance(piece, ThinkingDelta) else "text"
        place = part, piece.call if is_call else 0
        stream = self._streams.get(piece.key)
        if stream is None or piece.offset == 0 or stream.part != place:
            stream = self._streams[piece.key] = _Stream(place)
        text = stream.masked.feed(piece.text)
        if not text:
            return None
        offset, stream.shown = stream.shown, stream.shown + len(text)
        return PageDelta(
            key=piece.key,
            scope=ask.team.scope,
            expert=ask.expert,
            part=part,
            text=text,
            offset=offset,
            attempt=piece.attempt,
            tool=piece.tool if is_call else "",
            call=piece.call if is_call else 0,
        )

    def end(self, key: str) -> None:
        """Forget a turn that is over."""
        self._streams.pop(key, None)
