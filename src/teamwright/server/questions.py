"""Questions of a run as other protocols ask them, and what comes back as answers.

A question becomes a form: of MCP's elicitation, under the question's key, or of an interrupt of AG-UI, whose id names
the run and the key, so that every process knows what an answer is for. A person may also answer elsewhere, on the page
or the command line, so that an answer which comes too late is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.server.masked_json import contains_mask
from teamwright.values.people import (
    ABORT,
    CHOICES,
    CONFIRM_CHOICES,
    EDIT,
    NO,
    REJECT,
    REVIEW_CHOICES,
    SMALLER,
    STOP,
    Answer,
    Question,
    check_answer,
)
from teamwright.values.text.secrets import mask_text, mask_value

if TYPE_CHECKING:
    from teamwright.server.chat.agui_wire import ResumeEntry
    from teamwright.server.overview import WaitingQuestion
    from teamwright.server.page.page_events import PageQuestion


Json = dict[str, Any]
ELICIT = "elicitation/create"
ANSWER, CONTENT, REASON, USD, TOKENS = "answer", "content", "reason", "usd", "tokens"
"""The fields of a form: the answer, the new content of a draft, why it is rejected, and a lower ceiling."""


def input_request(asked: WaitingQuestion) -> Json:
    """Return the request for input that a question is."""
    params = {"mode": "form", "message": full_text(asked), "requestedSchema": answer_schema(asked)}
    return {"method": ELICIT, "params": params}


def full_text(asked: WaitingQuestion | PageQuestion) -> str:
    """Return the text of a question with its draft."""
    return mask_text(asked.text if asked.draft is None else f"{asked.text}\n\n{asked.draft}")


def answer_schema(asked: WaitingQuestion | PageQuestion) -> Json:
    """Return the schema of the form in which a question is answered."""
    fields = {name: {**field, "title": name} for name, field in _fields(asked).items()}
    return {"type": "object", "properties": fields, "required": [ANSWER]}


def _fields(asked: WaitingQuestion | PageQuestion) -> Json:
    answer: Json = {"type": "string"}
    if asked.choices:
        answer["enum"] = [mask_text(one) for one in asked.choices]
    if _is_confirmation(asked):
        return {ANSWER: answer, USD: {"type": "number", "minimum": 0}, TOKENS: {"type": "integer", "minimum": 1}}
    if asked.draft is not None:
        new = "the new content as JSON" if asked.form == "json" else "the new content"
        return {ANSWER: answer, CONTENT: {"type": "string", "description": new}, REASON: {"type": "string"}}
    return {ANSWER: answer}


def elicited_answer(asked: WaitingQuestion, response: object, by: str) -> Answer | None:
    """Return the answer in a response; `None` if it has none, so that the question stays open.

    A person who declines rejects a draft and refuses to confirm; any other question waits for who has an answer.
    Raises `UsageError` for what is no response.
    """
    given = cast("Json", response) if isinstance(response, dict) else {}
    match given.get("action"):
        case "accept":
            return given_answer(asked, given.get("content"), by)
        case "decline" if _is_confirmation(asked):
            return Answer(text=NO, by=by)
        case "decline" if asked.draft is not None:
            return Answer(text=REJECT, by=by)
        case "decline" | "cancel":
            return None
        case _:
            raise UsageError(f"The response to {asked.key!r} has no action: accept, decline or cancel.")


def given_answer(asked: WaitingQuestion, content: object, by: str) -> Answer:
    """Return the answer in a form that was filled in; raises `UsageError` for anything else."""
    fields = cast("Json", content) if isinstance(content, dict) else {}
    text = fields.get(ANSWER)
    if text is None and fields and not asked.choices and asked.draft is None:
        text = json.dumps(fields, ensure_ascii=False)  # of a client with a form of its own
    if not isinstance(text, str):
        raise UsageError(f"The response to {asked.key!r} has no text {ANSWER!r} in its content.")
    data: JsonValue = None
    if _is_confirmation(asked) and text == SMALLER:
        data = {unit: fields[unit] for unit in (USD, TOKENS) if unit in fields}
    elif asked.draft is not None and text == EDIT:
        data = _new_content(asked, fields.get(CONTENT))
    elif asked.draft is not None and isinstance(fields.get(REASON), str):
        data = fields[REASON] or None
    if contains_mask([text, data]):
        text, data = asked.unmasked(text, data)
    return Answer(text=text, data=data, by=by)


def _new_content(asked: WaitingQuestion, content: object) -> JsonValue:
    if not isinstance(content, str):
        raise UsageError(f"The edit of {asked.key!r} needs the new {CONTENT!r} as a text.")
    if asked.form != "json":
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The new {CONTENT!r} of {asked.key!r} is no JSON.") from error


def _is_confirmation(asked: WaitingQuestion | PageQuestion) -> bool:
    return asked.reason == "approval" and tuple(asked.choices) == CONFIRM_CHOICES


def interrupt_id(run_id: str, key: str) -> str:
    """Return the id of an interrupt: that of a question of a run."""
    return f"{run_id}:{key}"


def run_of(interrupt: str) -> str:
    """Return the run that an interrupt is of; a name that no run has if the interrupt is not one of ours."""
    return interrupt.partition(":")[0]


def interrupt_of(run_id: str, asked: WaitingQuestion | PageQuestion) -> Json:
    """Return the interrupt that a question is, with a form for its answer."""
    about: dict[str, JsonValue] = {"key": asked.key, "to": asked.to, "choices": [*asked.choices]}
    if asked.draft is not None:
        about |= {"draft": asked.draft, "form": asked.form}
    return {
        "id": interrupt_id(run_id, asked.key),
        "reason": asked.reason,
        "message": full_text(asked),
        "responseSchema": answer_schema(asked),
        "metadata": {"teamwright": mask_value(about)},
    }


def resumed_answer(asked: WaitingQuestion, question: Question, entry: ResumeEntry, by: str) -> Answer | None:
    """Return the answer of an entry; `None` where the question is abandoned and the run can't go on without it.

    A payload is a form as in the schema of the interrupt, or its text alone. Raises `UsageError` for anything else.
    """
    if entry.status == "cancelled":
        text = _refusal_of(tuple(asked.choices))
        return None if text is None else Answer(text=text, by=by)
    payload = {"answer": entry.payload} if isinstance(entry.payload, str) else entry.payload
    return check_answer(question, asked.key, given_answer(asked, payload, by))


def _refusal_of(choices: Sequence[str]) -> str | None:
    """Return the answer that lets a run go on without what was asked for."""
    match choices:
        case _ if choices == CONFIRM_CHOICES:
            return NO
        case _ if choices == CHOICES:
            return REJECT
        case _ if choices == REVIEW_CHOICES:
            return STOP
        case _ if ABORT in choices:
            return ABORT
        case _:
            return None
