"""Undoing a turn of a conversation, in a chat and from outside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import one_line
from teamwright.values.results import FINAL

if TYPE_CHECKING:
    from teamwright.history.conversation import ConversationTurn
    from teamwright.runtime.engine import Engine

REASON = "undone"


async def undo_turn(engine: Engine, name: str, *, by: str = "") -> ConversationTurn:
    """Withdraw the last turn of a conversation, after cancelling it if it has not ended."""
    last = await engine.conversations.last(name)
    if last is not None and last.status not in FINAL:
        await engine.runs.cancel(last.id, REASON)
    return await engine.conversations.undo(name, by=by)


def undone_text(turn: ConversationTurn) -> str:
    """Say which turn was undone, and whether only here."""
    return f"undone{' here' if turn.inherited else ''}: {one_line(turn.task)}"
