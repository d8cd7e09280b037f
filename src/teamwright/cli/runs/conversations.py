"""`teamwright runs conversations`: lists conversations, prints one, or withdraws its last turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_engine
from teamwright.cli.terminal.options import complete_conversations
from teamwright.cli.terminal.output import Json, Out, check_out, columns, one_line, say, write_json, write_result
from teamwright.errors import UsageError
from teamwright.values.text.display import NOTHING, cut, number_text, price_text

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from teamwright.history.run_history import ConversationHistory, ConversationSummary, ConversationTurn
    from teamwright.runtime.engine import Engine

REASON = "undone"


def conversations(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A conversation, to print it; without it, all are listed.",
            autocompletion=complete_conversations,
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Withdraw the last turn of NAME.")] = False,
    by: Annotated[str, typer.Option("--by", help="Who undoes it, which is recorded.")] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """List conversations, the one with the newest turn first, or print one, turn by turn.

    With --undo, its next turn continues from the one before the last. A turn that has not ended is cancelled first, and
    its run stays in the journal. A fork without turns of its own goes back by one of those that it began with, which
    stay where they were.

    Examples:
      teamwright runs conversations bakery
      teamwright runs conversations bakery --undo
    """
    check_out(out)
    if undo and name is None:
        raise UsageError("Name the conversation whose last turn is withdrawn:  runs conversations NAME --undo")

    async def work(engine: Engine) -> int:
        if name is None:
            await _list(engine, out, json=json)
        elif undo:
            await _undo(engine, name, by, out, json=json)
        else:
            found = await engine.conversations.read(name)
            write_json(_to_json(found), out) if json else write_result(_to_text(found), out)
        return 0

    return with_engine(work)


async def _list(engine: Engine, out: Path | None, *, json: bool) -> None:
    listed = await engine.conversations.list()
    if json:
        write_json([one.to_json() for one in listed], out)
    elif listed:
        write_result(conversation_table(listed), out)
    else:
        say("There are no conversations yet. Begin one with  teamwright chat MANIFEST")


async def _undo(engine: Engine, name: str, by: str, out: Path | None, *, json: bool) -> None:
    undone = await undo_turn(engine, name, by=by)
    if json:
        next_after = await engine.conversations.head(name)
        write_json({"name": name, "undone": undone.to_json(), "continues": next_after}, out)
    else:
        write_result(undone_text(undone), out)


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
    from teamwright.cli.terminal.result_wording import WIDEST_TEAM, time_text

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
