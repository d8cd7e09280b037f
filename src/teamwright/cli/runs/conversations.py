"""`teamwright runs conversations` and `conversation`: list conversations, and print one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.interactive.open import with_engine
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.history.conversation import ConversationHistory
    from teamwright.runtime.engine import Engine

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a conversation.")]


def conversations(json: Json = False, out: Out = None) -> int:
    """List conversations, the one with the newest turn first."""
    check_out(out)

    async def work(engine: Engine) -> int:
        from teamwright.cli.text.table import conversation_table

        found = await engine.conversations.list()
        if json:
            write_json([one.to_json() for one in found], out)
        elif found:
            write_result(conversation_table(found), out)
        else:
            say("There are no conversations yet. Begin one with  teamwright chat MANIFEST")
        return 0

    return with_engine(work)


def conversation(name: Name, json: Json = False, out: Out = None) -> int:
    """Print a conversation, turn by turn."""
    check_out(out)

    async def work(engine: Engine) -> int:
        found = await engine.conversations.read(name)
        if json:
            write_json(_to_json(found), out)
        else:
            write_result(_to_text(found), out)
        return 0

    return with_engine(work)


def _to_json(found: ConversationHistory) -> dict[str, JsonValue]:
    return {
        "name": found.name,
        "turns": [
            {
                "run_id": turn.run_id,
                "task": turn.task,
                "output": turn.output,
                "status": turn.status,
                "usage": turn.usage.to_json(),
            }
            for turn in found.turns
        ],
        "messages": [one.to_json() for one in found.messages],
        "usage": found.usage.to_json(),
    }


def _to_text(found: ConversationHistory) -> str:
    turns = [f"> {turn.task}\n\n{turn.output or f'({turn.status})'}" for turn in found.turns]
    return "\n\n".join(turns) if turns else f"The conversation {found.name!r} has no turns: all were undone."
