"""`teamwright runs conversations` and `undo`: list conversations, print one, undo its last turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_engine
from teamwright.cli.terminal.output import Json, Out, check_out, columns, one_line, say, write_json, write_result
from teamwright.values.text.display import NOTHING, cut, number_text, price_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.history.conversation import ConversationHistory, ConversationSummary, ConversationTurn
    from teamwright.runtime.engine import Engine

REASON = "undone"


def conversations(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A conversation, to print it; without it, all are listed.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """List conversations, the one with the newest turn first, or print one, turn by turn."""
    check_out(out)

    async def work(engine: Engine) -> int:
        if name is not None:
            found = await engine.conversations.read(name)
            if json:
                write_json(_to_json(found), out)
            else:
                write_result(_to_text(found), out)
            return 0
        listed = await engine.conversations.list()
        if json:
            write_json([one.to_json() for one in listed], out)
        elif listed:
            write_result(conversation_table(listed), out)
        else:
            say("There are no conversations yet. Begin one with  teamwright chat MANIFEST")
        return 0

    return with_engine(work)


def undo(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a conversation.")],
    by: Annotated[str, typer.Option("--by", help="Who undoes it, which is recorded.")] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Withdraw the last turn of a conversation: the next turn continues from the one before.

    A turn that has not ended is cancelled first. The run of the turn stays in the journal. A fork without turns of its
    own goes back by one of those that it began with, which stay where they were.
    """
    check_out(out)

    async def work(engine: Engine) -> int:
        undone = await undo_turn(engine, name, by=by)
        if json:
            next_after = await engine.conversations.head(name)
            write_json({"name": name, "undone": undone.to_json(), "continues": next_after}, out)
        else:
            write_result(undone_text(undone), out)
        return 0

    return with_engine(work)


def _to_json(found: ConversationHistory) -> dict[str, JsonValue]:
    return {
        "name": found.name,
        "turns": [turn.to_json() for turn in found.turns],
        "messages": [one.to_json() for one in found.messages],
        "usage": found.usage.to_json(),
    }


def _to_text(found: ConversationHistory) -> str:
    turns = [f"> {turn.task}\n\n{turn.output or f'({turn.status})'}" for turn in found.turns]
    return "\n\n".join(turns) if turns else f"The conversation {found.name!r} has no turns: all were undone."


def conversation_table(conversations: Sequence[ConversationSummary]) -> str:
    """One line per conversation, in columns."""
    from teamwright.cli.views.run_tables import WIDEST_TEAM, time_text

    heads = ("CONVERSATION", "TEAM", "TURNS", "LAST RUN", "STATUS", "STARTED", "TOKENS", "PRICE")
    cells = [
        (
            one_line(one.name),
            one_line(cut(one.team, WIDEST_TEAM)),
            str(one.turns),
            one_line(one.last_run),
            one.status,
            time_text(one.started_at),
            number_text(one.total_tokens),
            NOTHING if one.usd is None else price_text(one.usd),
        )
        for one in conversations
    ]
    return columns([heads, *cells])


async def undo_turn(engine: Engine, name: str, *, by: str = "") -> ConversationTurn:
    """Withdraw the last turn of a conversation, after cancelling it if it has not ended."""
    from teamwright.values.turns.results import FINAL

    last = await engine.conversations.last(name)
    if last is not None and last.status not in FINAL:
        await engine.runs.cancel(last.id, REASON)
    return await engine.conversations.undo(name, by=by)


def undone_text(turn: ConversationTurn) -> str:
    """Say which turn was undone, and whether only here."""
    return f"undone{' here' if turn.inherited else ''}: {one_line(turn.task)}"
