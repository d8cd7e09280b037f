"""Views of a run as it happens: plain lines for files and pipes, JSON lines for programs, and none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from teamwright.cli.terminal.output import clean, line_json, one_line, say
from teamwright.cli.text.events import mark_of, note_text, seconds_text
from teamwright.history.board import Board
from teamwright.values.events.agent import AgentFailed, AgentReplied
from teamwright.values.events.event import Delta, Event
from teamwright.values.events.run import RunResumed
from teamwright.values.events.team import TeamStarted
from teamwright.values.text.display import cut, number_text

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

WIDEST_LINE = 160
CUT = " (cut at its output cap)"


class View(Protocol):
    """Shows a run. `past` is for events that happened before the user came."""

    def past(self, event: Event) -> None: ...

    async def take(self, item: Event | Delta) -> None: ...

    def close(self) -> None:
        """Leave the terminal as it was; may be called at any time and more than once."""
        ...


class Silent:
    """Shows nothing."""

    def past(self, event: Event) -> None:
        """Nothing to know."""

    async def take(self, item: Event | Delta) -> None:
        """Nothing to show."""

    def close(self) -> None:
        """Nothing to leave."""


class EventLines(Silent):
    """Each event as a line of JSON on stdout, and nothing else."""

    async def take(self, item: Event | Delta) -> None:
        """Print an event; pieces of replies are no events."""
        if isinstance(item, Event):
            line_json(item.to_json())


class PlainLines:
    """A line for each reply and for each thing worth knowing: `writer  ▸ first line …  123 tok 1.2 s`."""

    def __init__(self, journal: Journal, write: Callable[[str], None] = say, *, numbered: bool = False) -> None:
        self._journal, self._write, self._numbered = journal, write, numbered
        self._repeats = Repeats()
        self.board = Board()

    def past(self, event: Event) -> None:
        """Know it without showing it."""
        self.board.apply(event)

    async def take(self, item: Event | Delta) -> None:
        """Show what is worth a line."""
        if isinstance(item, Delta):
            return
        text = await self._line(item)
        self.board.apply(item)
        if text and self._numbered:
            self._write(self._head(item) + text)
        elif text:
            for line in self._repeats.lines(text, once=isinstance(item.fact, AgentReplied)):
                self._write(line)

    def close(self) -> None:
        """Tell what was held back; lines leave nothing else behind."""
        for line in self._repeats.rest():
            self._write(line)

    def _head(self, event: Event) -> str:
        if not self._numbered:
            return ""
        since = event.time - (self.board.began if self.board.began is not None else event.time)
        return f"{event.number:>5}  +{seconds_text(since):<8}  "

    async def _line(self, event: Event) -> str | None:
        turn = self.board.turn_of(event.key)
        row = turn.row if turn else None
        indent = "  " * max(0, row.depth - 1) if row else ""
        name = f"{indent}{row.member:<10} " if row and row.depth > 0 else ""
        match event.fact:
            case AgentReplied() if turn is None or (row and row.depth == 0):
                return None
            case AgentReplied() as fact if row and turn:
                used = f"{number_text(turn.tokens)} tok {seconds_text(event.time - turn.began)}"
                said = "✓ the team is done" if row.is_team else f"▸ {await self._said(fact)}"
                return f"{name} {said}  {used}{CUT if fact.truncated else ''}"
            case TeamStarted(strategy=strategy, members=members):
                return f"{name or self.board.team + ' '} {strategy} of {', '.join(members)}"
            case AgentFailed() if row and row.depth == 0:
                return None
            case RunResumed() if not self._numbered:
                return None
            case _:
                note = note_text(event)
                return f"{name} {mark_of(event)} {one_line(note)}" if note else None

    async def _said(self, fact: AgentReplied) -> str:
        texts = await message_texts(self._journal, fact)
        first = one_line(texts[-1]) if texts else "(nothing)"
        return cut(first, WIDEST_LINE, " …")


class Repeats:
    """Tells a line that comes again and again once, and then how often."""

    def __init__(self) -> None:
        self._last, self._more = "", 0

    def lines(self, text: str, *, once: bool = False) -> Iterator[str]:
        """What to write when this comes; a line that is `once` is always written."""
        if text == self._last and not once:
            self._more += 1
            return
        yield from self.rest()
        self._last = "" if once else text
        yield text

    def rest(self) -> Iterator[str]:
        """What is still to be told of the last line."""
        if self._more:
            yield f"  … {self._more} more like this"
        self._last, self._more = "", 0


async def message_texts(journal: Journal, fact: AgentReplied | AgentFailed) -> list[str]:
    """What was said, as text."""
    from teamwright.journal.decoder import decode_body

    hashes = [ref.body for ref in fact.messages]
    bodies = await journal.bodies(hashes)
    return [clean(str(decode_body(bodies[one]))) for one in hashes]


def live_view(journal: Journal, *, quiet: bool) -> View:
    """The view that fits where stderr goes."""
    if quiet:
        return Silent()
    if sys.stderr.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}:
        from teamwright.cli.views.live import LiveView

        return LiveView(journal)
    return PlainLines(journal)
