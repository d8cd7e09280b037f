"""What members write: messages that are written piece by piece, of which nothing can be taken back.

What a record may leave out of a text is held back: blanks around it, and the envelope that a member writes below its
answer for the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from teamwright.server.frames import WithheldEnding

Json = dict[str, Any]
MessageForm = Literal["TEXT", "REASONING"]


@dataclass(slots=True)
class Writing:
    """A message that is open: `owner` is the subagent that writes it, `None` for the answer of the team."""

    id: str
    owner: str | None
    form: MessageForm
    text: str = ""
    ending: WithheldEnding = field(default_factory=WithheldEnding)

    def start(self, name: str = "") -> Iterator[Json]:
        """Yield what opens the message."""
        tag = {} if self.owner is None else {"subagentRunId": self.owner}
        if self.form == "REASONING":
            yield {"type": "REASONING_START", "messageId": self.id, **tag}
            yield {"type": "REASONING_MESSAGE_START", "messageId": self.id, "role": "reasoning", **tag}
            return
        said = {"name": name} if name else {}
        yield {"type": "TEXT_MESSAGE_START", "messageId": self.id, "role": "assistant", **said, **tag}

    def add(self, text: str) -> Iterator[Json]:
        """Yield a part of the message as it is."""
        if text:
            self.text += text
            kind = "TEXT_MESSAGE" if self.form == "TEXT" else "REASONING_MESSAGE"
            yield {"type": f"{kind}_CONTENT", "messageId": self.id, "delta": text}

    def feed(self, piece: str) -> Iterator[Json]:
        """Yield what a piece adds to the message, but for what may not stay."""
        shown = self.ending.pass_on(piece)
        yield from self.add(shown if self.text else shown.lstrip())

    def end(self) -> Iterator[Json]:
        """Yield what closes the message."""
        if self.form == "TEXT":
            yield {"type": "TEXT_MESSAGE_END", "messageId": self.id}
            return
        yield {"type": "REASONING_MESSAGE_END", "messageId": self.id}
        yield {"type": "REASONING_END", "messageId": self.id}

    def rest_of(self, text: str) -> str | None:
        """Return what follows of a recorded text; `None` if another one was written."""
        if text.lstrip().startswith(self.text):
            return text.lstrip()[len(self.text) :] if self.text else text
        return "" if text.strip() and self.text.startswith(text.strip()) else None


@dataclass(slots=True)
class SubagentTurn:
    """A turn of a member, or a nested team, which is a subagent of the run."""

    key: str
    name: str
    form: MessageForm
    id: str = ""
    is_answer: bool = False
    open: dict[str, Writing] = field(default_factory=dict[str, Writing])
