"""Questions of a run as the interrupts of AG-UI, and what a client resumes with as their answers.

The id of an interrupt names the run and the key of the question, so that every process knows what an answer is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from teamwright.server.mcp.input_requests import answer_schema, full_text, given_answer
from teamwright.values.people import (
    ABORT,
    CHOICES,
    CONFIRM_CHOICES,
    NO,
    REJECT,
    REVIEW_CHOICES,
    STOP,
    Answer,
    Question,
    check_answer,
)
from teamwright.values.text.secret_patterns import mask_value

if TYPE_CHECKING:
    from teamwright.server.agui.wire import ResumeEntry
    from teamwright.server.overview import WaitingQuestion
    from teamwright.server.page.page_events import PageQuestion

Json = dict[str, Any]


def interrupt_id(run_id: str, key: str) -> str:
    """Return the id of an interrupt: that of a question of a run."""
    return f"{run_id}:{key}"


def run_of(interrupt: str) -> str:
    """Return the run that an interrupt is of; a name that is none if it is no interrupt of ours."""
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


def answer_of(asked: WaitingQuestion, question: Question, entry: ResumeEntry, by: str) -> Answer | None:
    """Return the answer of an entry; `None` where the question is abandoned and the run can't go on without it.

    A payload is a form as in the schema of the interrupt, or its text alone. Raises `UsageError` for what is none.
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
