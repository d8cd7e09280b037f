"""The view of one turn of a chat: the answer as it is written, and a line for each tool call and note.

The answer goes to stdout and everything else to stderr, so that a chat can be redirected like any result.
"""

from __future__ import annotations

import sys

from teamwright.cli.terminal.output import clean, one_line, result_stream, say, write_text
from teamwright.cli.text.events import mark_of, note_text
from teamwright.values.events.agent import AgentCalled, AgentFailed, AgentReplied
from teamwright.values.events.event import AnyDelta, Delta, Event
from teamwright.values.events.team import TeamStarted
from teamwright.values.secrets.patterns import MaskedStream

SHOWN = ("agent", "budget", "workspace")
"""Domains of events that have a line: what members and the budget do."""


class AnswerStream:
    """Cuts a streamed text into pieces that can be printed: a word that may be a secret is held back until it ends."""

    def __init__(self) -> None:
        self._masked, self._pieces = MaskedStream(), list[str]()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def feed(self, text: str) -> str:
        """Add a piece of the text, and return what can be printed now."""
        self._pieces.append(text)
        return clean(self._masked.feed(text))

    def finish(self) -> str:
        """Return what is left to print."""
        return clean(self._masked.flush())


class ChatView:
    """Streams the replies of one turn; the names of members are shown once there is more than one."""

    def __init__(self) -> None:
        self._stream = AnswerStream()
        self._speaker = ""
        self._key = ("", 0)
        self._is_inside_line = False
        self._members: set[str] = set()

    @property
    def streamed(self) -> str:
        """The last text that was streamed as a whole."""
        return self._stream.text.strip()

    def catch_up(self, event: Event) -> None:
        """Do nothing: what happened before is not shown."""

    async def show(self, item: Event | AnyDelta) -> None:
        """Show a piece of an answer, or the line of an event; what a model thinks is not shown."""
        if isinstance(item, Delta):
            self._add(item)
        if not isinstance(item, Event):
            return
        match item.fact:
            case TeamStarted(members=members):
                self._members.update(members)
            case AgentCalled(effect="tool", name=name):
                self._note(f"⚙ {one_line(name)}")
            case AgentFailed() | AgentReplied():
                pass  # how the turn ended is said once, at its end
            case _ if item.domain in SHOWN and (note := note_text(item)):
                self._note(f"{mark_of(item)} {one_line(note)}")
            case _:
                pass

    def _add(self, delta: Delta) -> None:
        if (delta.key, delta.attempt) != self._key or delta.offset == 0:
            self.close()
            self._key, self._stream = (delta.key, delta.attempt), AnswerStream()
        if delta.member != self._speaker:
            self._speaker = delta.member
            if len(self._members) > 1:
                self._note(f"{one_line(delta.member)}:")
        self._print(self._stream.feed(delta.text))

    def _note(self, text: str) -> None:
        self.close()
        say(text)

    def _print(self, text: str) -> None:
        if text:
            write_text(text)
            self._is_inside_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_inside_line:
            self._print("\n")

    def close(self) -> None:
        """Print what is left of the answer, and end its line."""
        self._print(self._stream.finish())
        self._end_line()

    def finish(self, output: str | None) -> None:
        """Print the answer, unless it was streamed."""
        self.close()
        if output and output.strip() != self.streamed:
            self._print(clean(output).rstrip("\n") + "\n")


def can_stream() -> bool:
    """Whether answers are shown as they are written: stdout is a terminal."""
    return result_stream().isatty() and sys.stderr.isatty()
