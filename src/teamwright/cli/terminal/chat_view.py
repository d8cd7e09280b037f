"""The view of one turn of a chat: the answer as it is written, and a line for each tool call and note.

The answer goes to stdout and everything else to stderr, so that a chat can be redirected like any result.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from teamwright.cli.terminal.line_views import WIDEST_LINE, message_texts
from teamwright.cli.terminal.output import clean, one_line, result_stream, say, write_text
from teamwright.cli.terminal.tool_calls import ToolLines
from teamwright.history.event_wording import mark_of, note_text
from teamwright.history.member_board import Board, OpenTurn
from teamwright.values.events.agent import AgentFailed, AgentReplied
from teamwright.values.events.event import AnyDelta, Delta, Event
from teamwright.values.events.team import TeamHandoff
from teamwright.values.text.display import cut
from teamwright.values.text.secrets import MaskedStream

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

SHOWN = ("agent", "budget", "workspace")
"""Domains of events that have a line: what members and the budget do."""


class AnswerStream:
    """Cuts a streamed text into pieces that can be printed: a word that may be a secret is held back until it ends."""

    def __init__(self) -> None:
        self._masked, self._pieces = MaskedStream(), list[str]()

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def feed(self, text: str) -> str:
        """Add a piece of the text, and return what can be printed now."""
        self._pieces.append(text)
        return clean(self._masked.feed(text))

    def finish(self) -> str:
        """Return what is left to print."""
        return clean(self._masked.flush())


class ChatView:
    """Streams the replies of one turn; the names of members are shown once there is more than one.

    Agents that a member asks as tools are shown as tool calls are: their replies are not the answer.
    """

    def __init__(self, journal: Journal) -> None:
        self._streams: dict[str, AnswerStream] = {}
        self._last = AnswerStream()
        self._speaker = self._key = ""
        self._is_inside_line = False
        self._journal, self._tools, self._board = journal, ToolLines(journal), Board()

    @property
    def streamed(self) -> str:
        return self._last.text.strip()

    def catch_up(self, event: Event) -> None:
        """Apply an event without showing it: what happened before is not shown."""
        self._board.apply(event)
        self._tools.apply(event)

    async def show(self, item: Event | AnyDelta) -> None:
        """Show a piece of an answer, or the line of an event; what a model thinks is not shown."""
        if isinstance(item, Delta):
            self._add(item)
        if not isinstance(item, Event):
            return
        if (stream := self._streams.pop(item.scope, None)) is not None:  # the response is complete, or has failed
            self._print(stream.finish())
        for line in await self._lines(item):
            self._note(line)
        self._board.apply(item)
        self._tools.apply(item)

    async def _lines(self, event: Event) -> list[str]:
        turn = self._board.turn_of(event.key)
        if tool := await self._tools.lines(event):
            return [f"{self._name(turn)}{line}" for line in tool]
        match event.fact:
            case AgentReplied() as fact if turn is not None and turn.asker is not None:
                said = one_line("\n".join(await message_texts(self._journal, fact)))
                return [f"{self._name(turn)}▸ {cut(said, WIDEST_LINE, ' …') or '(empty)'}"]
            case AgentFailed() | AgentReplied():
                return []  # how the turn ended is said once, at its end
            case fact if event.domain in SHOWN or isinstance(fact, TeamHandoff):
                note = await self._tools.note(event) or note_text(event)
                who = "" if isinstance(fact, TeamHandoff) else self._name(turn)
                return [f"{who}{mark_of(event)} {one_line(note)}"] if note else []
            case _:
                return []

    def _name(self, turn: OpenTurn | None) -> str:
        """The name before a line about a turn, if the reader could not tell whose it is."""
        if turn is None or (turn.asker is None and not self._has_several_members):
            return ""
        return f"{'  ' * max(0, turn.row.depth - 1)}{one_line(turn.row.member)} "

    @property
    def _has_several_members(self) -> bool:
        return sum(not row.is_team and not row.is_tool for row in self._board.rows()) > 1

    def _add(self, delta: Delta) -> None:
        turn = self._board.turn_of(delta.key)
        if turn is not None and turn.asker is not None:
            return
        if delta.offset == 0:
            self._end_line()
            self._streams[delta.key] = AnswerStream()
        if delta.key not in self._streams:  # a reply is masked from its beginning, or not shown
            return
        if delta.key != self._key:
            self._end_line()
        self._key, self._last = delta.key, self._streams[delta.key]
        if delta.member != self._speaker:
            self._speaker = delta.member
            if self._has_several_members:
                self._note(f"{one_line(delta.member)}:")
        self._print(self._last.feed(delta.text))

    def _note(self, text: str) -> None:
        self._end_line()
        say(text)

    def _print(self, text: str) -> None:
        if text:
            write_text(text)
            self._is_inside_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_inside_line:
            self._print("\n")

    def close(self) -> None:
        """Print what is left of the answers, and end the line."""
        for stream in self._streams.values():
            self._print(stream.finish())
        self._streams.clear()
        self._end_line()

    def finish(self, output: str | None) -> None:
        """Print the answer, unless it was streamed."""
        self.close()
        if output and output.strip() != self.streamed:
            self._print(clean(output).rstrip("\n") + "\n")


def can_stream() -> bool:
    """Whether answers are shown as they are written: stdout is a terminal."""
    return result_stream().isatty() and sys.stderr.isatty()
