"""What the user of an editor says: a prompt as the task of a run, and choices as answers to the questions of a run.

The protocol knows no free text. A question that wants one is what the agent says, and the next prompt is the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.agents.acp.connection import Json, items_at, part_at, text_at
from teamwright.server.mcp.input_requests import full_text
from teamwright.values.people import ABORT, EDIT, NO, REJECT, SMALLER, STOP, Answer
from teamwright.values.text.display import cut
from teamwright.values.text.secret_patterns import mask_text

if TYPE_CHECKING:
    from teamwright.server.overview import WaitingQuestion

REFUSALS = frozenset((REJECT, NO, STOP, ABORT))
NEED_TEXT = frozenset((EDIT, SMALLER))
"""Choices that want a text or an amount besides: they are made on the page or the command line."""
LONGEST_TITLE, LONGEST_DRAFT = 200, 20_000


def permission_of(session: str, asked: WaitingQuestion) -> Json:
    """Return the request for permission that a question with choices is."""
    call: Json = {
        "toolCallId": asked.key,
        "title": cut(mask_text(asked.text), LONGEST_TITLE),
        "kind": "other",
        "status": "pending",
        "content": [{"type": "content", "content": {"type": "text", "text": cut(full_text(asked), LONGEST_DRAFT)}}],
    }
    options: list[JsonValue] = [
        {
            "optionId": str(place),
            "name": mask_text(choice),
            "kind": "reject_once" if choice in REFUSALS else "allow_once",
        }
        for place, choice in enumerate(asked.choices)
        if choice not in NEED_TEXT
    ]
    return {"sessionId": session, "toolCall": call, "options": options}


def decision_of(asked: WaitingQuestion, result: Json, by: str) -> Answer | None:
    """Return the answer that the user of the editor has chosen; `None` if the editor has cancelled."""
    chosen = text_at(result, "outcome", "optionId")
    if text_at(result, "outcome", "outcome") != "selected" or not chosen.isdecimal():
        return None
    place = int(chosen)
    return Answer(text=asked.choices[place], by=by) if place < len(asked.choices) else None


def question_text(asked: WaitingQuestion) -> str:
    """Return a question that wants a text, as what the agent says."""
    return f"\n\n{full_text(asked)}"


def prompt_text(params: Json) -> str:
    """Return a prompt as one text: its texts, the texts of files that came with it, and the names of other files."""
    pieces: list[str] = []
    for block in items_at(params, "prompt"):
        match text_at(block, "type"):
            case "text":
                pieces.append(text_at(block, "text"))
            case "resource_link":
                pieces.append(f"[{text_at(block, 'name')}]({text_at(block, 'uri')})")
            case "resource":
                file = part_at(block, "resource")
                pieces.append(f"\n{text_at(file, 'uri')}:\n```\n{text_at(file, 'text')}\n```\n")
            case _:
                continue
    return "".join(pieces)
