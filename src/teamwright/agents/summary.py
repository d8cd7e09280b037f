"""Summaries of conversations: of a history that no longer fits a model, and of one that soon would not.

The texts are part of prompts: changing one changes the digests of recorded turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.transcript import transcript
from teamwright.values.turns.turn import Turn

CHUNK = 12_000
"""Characters of a conversation that are summarised at once; small enough for any model."""
SUMMARISE = (
    "Summarise this part of a conversation for somebody who has to go on with it. Keep names, figures, decisions and"
    " open questions; leave out everything else.\n\n"
)
SUMMARY = "summary"
"""The author of a summary in a history."""


def summary_turn(part: str, number: int) -> Turn:
    """Return the turn that asks for the summary of one part of a conversation."""
    return Turn(SUMMARISE + part, number=number, purpose="coordinate")


def summary_message(summaries: Sequence[str]) -> Message:
    """Return the summaries of the parts of a conversation as one message."""
    return Message(name=SUMMARY, content="\n\n".join(summaries), role="user")


def with_summary(turn: Turn, kept: int, summary: Message) -> Turn:
    """Return the turn with a summary in place of its history, except the last `kept` messages."""
    history = turn.history
    earlier = len(history) - kept
    since = None if turn.since is None else max(1, turn.since - earlier + 1)
    return replace(turn, history=History.of([summary, *history[earlier:]]), since=since)


def split_transcript(messages: Sequence[Message], *, chunk: int = CHUNK) -> Iterator[str]:
    """Yield the messages, under the names of their authors, in chunks of bounded length."""
    return split_texts((transcript((message,)) for message in messages), chunk)


def split_texts(texts: Iterator[str], chunk: int = CHUNK) -> Iterator[str]:
    """Yield the texts in chunks of bounded length."""
    text = ""
    for one in texts:
        said = one + "\n\n"
        if text and len(text) + len(said) > chunk:
            yield text.strip()
            text = ""
        while len(said) > chunk:
            yield said[:chunk].strip()
            said = said[chunk:]
        text += said
    if text.strip():
        yield text.strip()
