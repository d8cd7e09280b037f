"""Pieces of replies that models are writing, for a page: masked word by word, with offsets of what is shown."""

from __future__ import annotations

from teamwright.server.page.page_events import DeltaPart, PageDelta
from teamwright.server.page.projection.masked_deltas import MaskedDeltas
from teamwright.server.page.projection.stage import Stage
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event, ThinkingDelta


class DeltaStreams:
    """The parts that the open turns are writing now."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._masked = stage, MaskedDeltas()

    def project(self, piece: AnyDelta) -> PageDelta | None:
        """Return what a piece adds to the page; `None` where it is held back, or its turn is over."""
        if self._stage.ask_around(piece.key) is None:
            return None
        shown = self._masked.masked(piece)
        return None if shown is None else self._shown(shown)

    def written(self) -> list[PageDelta]:
        """Return what the page shows of each part so far, for a reader that has just come."""
        return [shown for one in self._masked.written() if (shown := self._shown(one)) is not None]

    def end(self, event: Event) -> None:
        """Forget a turn that is over."""
        self._masked.end(event)

    def _shown(self, piece: AnyDelta) -> PageDelta | None:
        ask = self._stage.ask_around(piece.key)
        if ask is None:
            return None
        is_call = isinstance(piece, ArgumentsDelta)
        part: DeltaPart = "arguments" if is_call else "thinking" if isinstance(piece, ThinkingDelta) else "text"
        return PageDelta(
            key=piece.key,
            scope=ask.team.scope,
            expert=ask.expert,
            part=part,
            text=piece.text,
            offset=piece.offset,
            attempt=piece.attempt,
            tool=piece.tool if is_call else "",
            call=piece.call if is_call else 0,
        )
